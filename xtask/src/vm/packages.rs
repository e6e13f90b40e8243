//! Debian packages, unpacked into a cache: a QEMU that emulates igb, and a recent kernel.
//!
//! Nothing is installed.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt::{Apt, Scratch, create, list, run, unpack, write};
use crate::cargo;
use crate::setup;

/// Where Debian's recent kernels are, whatever the machine runs.
const KERNEL_SUITE: &str = "trixie-backports";
/// The first version with `-device igb`.
const QEMU_MAJOR: u32 = 8;
/// The drivers that the guest loads; modules that they need come along.
const DRIVERS: [&str; 3] = ["igb", "virtio_net", "veth"];

/// A QEMU, of the machine or unpacked.
pub(crate) struct Qemu {
    program: PathBuf,
    /// Where its libraries and firmware are, if not where the machine has them.
    root: Option<PathBuf>,
}

/// A kernel and the modules that the guest loads, in that order.
pub(crate) struct Kernel {
    pub(crate) version: String,
    pub(crate) image: PathBuf,
    pub(crate) modules: Vec<PathBuf>,
}

impl Qemu {
    /// Finds one, or unpacks one.
    pub(crate) fn get(cache: &Path) -> Result<Self, String> {
        let own = setup::find(PROGRAM).map(|program| Self { program, root: None });
        let root = cache.join("qemu");
        let unpacked = Self { program: root.join("usr/bin").join(PROGRAM), root: Some(root) };
        if let Some(own) = own
            && own.has_igb()
        {
            return Ok(own);
        }
        if unpacked.has_igb() {
            return Ok(unpacked);
        }
        unpack_qemu(cache)?;
        if unpacked.has_igb() {
            Ok(unpacked)
        } else {
            Err("the QEMU of the packages has no igb".into())
        }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(root) = &self.root {
            let libraries = LIBRARIES.map(|path| root.join(path).display().to_string());
            command.env("LD_LIBRARY_PATH", libraries.join(":"));
            for firmware in ["usr/share/seabios", "usr/share/qemu"] {
                command.arg("-L").arg(root.join(firmware));
            }
        }
        command
    }

    fn has_igb(&self) -> bool {
        cargo::output(self.command().args(["-device", "help"]))
            .is_some_and(|list| list.contains("\"igb\""))
    }
}

impl Kernel {
    /// The kernel `version`, or the newest that is in the cache, or the newest that there is.
    pub(crate) fn get(cache: &Path, version: Option<&str>) -> Result<Self, String> {
        let cached = match version {
            Some(version) => Some(cache.join("kernel").join(version)),
            None => list(&cache.join("kernel")).into_iter().max_by_key(|path| numbers(path)),
        };
        if let Some(directory) = cached
            && let Some(kernel) = Self::open(&directory)
        {
            return Ok(kernel);
        }
        let directory = unpack_kernel(cache, version)?;
        Self::open(&directory).ok_or_else(|| format!("{} is incomplete", directory.display()))
    }

    fn open(directory: &Path) -> Option<Self> {
        let kernel = Self {
            version: directory.file_name()?.to_string_lossy().into_owned(),
            image: directory.join("vmlinuz"),
            modules: list(&directory.join("modules")),
        };
        (kernel.image.is_file() && !kernel.modules.is_empty()).then_some(kernel)
    }
}

const PROGRAM: &str = "qemu-system-x86_64";
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];

/// The numbers in the name of a kernel's directory, by which versions compare.
fn numbers(path: &Path) -> Vec<u32> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// Unpacks QEMU and the libraries that this machine does not have.
fn unpack_qemu(cache: &Path) -> Result<(), String> {
    let apt = Apt::new(cache, KERNEL_SUITE)?;
    let backports = apt.release.as_ref().map(|release| format!("{release}-backports"));
    let scratch = Scratch::new(cache, "qemu")?;
    let mut install = apt.download(&scratch.0, &["qemu-system-x86"]);
    if let (Some(backports), false) = (&backports, candidate_is_enough()) {
        install.args(["-t", backports]);
    }
    run(&mut install)?;
    let root = scratch.0.join("root");
    unpack(&scratch.0, &root)?;
    scratch.keep("root", &cache.join("qemu"))
}

/// Whether the QEMU that the machine would install knows igb.
fn candidate_is_enough() -> bool {
    let policy = cargo::output(Command::new("apt-cache").args(["policy", "qemu-system-x86"]));
    policy
        .as_deref()
        .and_then(|policy| policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: ")))
        .and_then(major)
        .is_some_and(|major| major >= QEMU_MAJOR)
}

/// The first number of a Debian version, after the epoch.
fn major(version: &str) -> Option<u32> {
    let upstream = version.split_once(':').map_or(version, |(_, upstream)| upstream);
    upstream.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Unpacks a kernel; returns the directory.
fn unpack_kernel(cache: &Path, version: Option<&str>) -> Result<PathBuf, String> {
    let apt = Apt::new(cache, KERNEL_SUITE)?;
    let version = match version {
        Some(version) => version.to_owned(),
        None => apt
            .depends(KERNEL_SUITE, "linux-image-amd64")?
            .iter()
            .filter_map(|package| package.strip_prefix("linux-image-"))
            .find(|version| version.starts_with(|c: char| c.is_ascii_digit()))
            .map(str::to_owned)
            .ok_or_else(|| format!("{KERNEL_SUITE} has no kernel"))?,
    };
    // The image is in one package with the modules, or in a package beside theirs.
    let image = format!("linux-image-{version}");
    let mut packages = vec![image.clone()];
    packages.extend(apt.depends(KERNEL_SUITE, &image)?.into_iter().filter(|package| {
        ["linux-binary-", "linux-modules-"].iter().any(|prefix| package.starts_with(prefix))
    }));

    let scratch = Scratch::new(cache, "kernel")?;
    run(apt.command("apt-get").args(["download", "-qq"]).args(packages).current_dir(&scratch.0))?;
    let root = scratch.0.join("root");
    unpack(&scratch.0, &root)?;
    let candidates =
        [format!("usr/lib/modules/{version}/vmlinuz"), format!("boot/vmlinuz-{version}")];
    let image = candidates.iter().map(|path| root.join(path)).find(|path| path.is_file());
    let image = image.ok_or_else(|| format!("the packages of {version} hold no vmlinuz"))?;

    let result = scratch.0.join("result");
    let modules = result.join("modules");
    create(&modules)?;
    copy(&image, &result.join("vmlinuz"))?;
    let available = modules_below(&root);
    let mut order = Vec::new();
    for driver in DRIVERS {
        add_module(driver, &available, &mut order)?;
    }
    for (number, (name, bytes)) in order.iter().enumerate() {
        write(&modules.join(format!("{number:02}-{name}.ko")), bytes)?;
    }
    let directory = cache.join("kernel").join(&version);
    create(&cache.join("kernel"))?;
    scratch.keep("result", &directory)?;
    Ok(directory)
}

/// Adds the module `name` to `order`, after those that it depends on.
fn add_module(
    name: &str,
    available: &[PathBuf],
    order: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), String> {
    if order.iter().any(|(present, _)| present == name) {
        return Ok(());
    }
    let path = available.iter().find(|path| module_name(path) == name);
    let path = path.ok_or_else(|| {
        format!("no module {name} in what {KERNEL_SUITE} still has of this kernel; take another")
    })?;
    let bytes = decompress(path)?;
    for dependency in dependencies(&bytes) {
        add_module(&dependency, available, order)?;
    }
    order.push((name.to_owned(), bytes));
    Ok(())
}

/// `i2c_algo_bit` for `…/i2c-algo-bit.ko.xz`: file names and module names differ in this.
fn module_name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    file.split('.').next().unwrap_or_default().replace('-', "_")
}

fn decompress(path: &Path) -> Result<Vec<u8>, String> {
    let failure = |reason: String| format!("cannot read {}: {reason}", path.display());
    if path.extension().is_none_or(|extension| extension != "xz") {
        return fs::read(path).map_err(|error| failure(error.to_string()));
    }
    let file = File::open(path).map_err(|error| failure(error.to_string()))?;
    let mut bytes = Vec::new();
    lzma_rs::xz_decompress(&mut BufReader::new(file), &mut bytes)
        .map_err(|error| failure(format!("{error:?}")))?;
    Ok(bytes)
}

/// What a module says it needs: `depends=` in its section `.modinfo`, whose entries end with a zero
/// byte each. Packages have no `modules.dep`: it is made when they are installed.
fn dependencies(module: &[u8]) -> Vec<String> {
    let entry = module.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"depends="));
    let names = String::from_utf8_lossy(entry.unwrap_or_default()).into_owned();
    names.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

/// All modules below `directory`.
fn modules_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in list(directory) {
        let is_module = || path.to_string_lossy().contains(".ko");
        if path.is_symlink() {
            continue;
        } else if path.is_dir() {
            found.extend(modules_below(&path));
        } else if is_module() {
            found.push(path);
        }
    }
    found
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_version_is_after_the_epoch() {
        assert_eq!(major("1:7.2+dfsg-7+deb12u18"), Some(7));
        assert_eq!(major("10.0.2"), Some(10));
        assert_eq!(major("(none)"), None);
    }

    #[test]
    fn versions_compare_as_numbers() {
        let newer = |a: &str, b: &str| numbers(Path::new(a)) > numbers(Path::new(b));
        assert!(newer("kernel/7.10.1+deb13-amd64", "kernel/7.2.12+deb13-amd64"));
        assert!(newer("kernel/7.2.12+deb13-amd64", "kernel/7.2.9+deb13-amd64"));
    }

    #[test]
    fn modules_come_after_what_they_need() {
        let module = b"\0license=GPL\0depends=dca,i2c-algo-bit\0retpoline=Y\0";
        assert_eq!(dependencies(module), ["dca", "i2c_algo_bit"]);
        assert!(dependencies(b"\0depends=\0").is_empty());
        assert_eq!(module_name(Path::new("/x/i2c-algo-bit.ko.xz")), "i2c_algo_bit");
    }
}
