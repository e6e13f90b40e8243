//! Debian packages, unpacked into a cache: a QEMU that emulates igb, and a kernel.
//!
//! Nothing is installed.

use std::fmt;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use crate::apt::{Apt, Scratch, unpack};
use crate::cargo::{self, run};
use crate::files::{create, list, write};
use crate::setup;

/// The suite with Debian's most recent kernels, for any release of the machine.
const NEWEST_SUITE: &str = "trixie-backports";
/// The kernels of Debian's releases, with their last changes, and the suites that have them. The
/// archive of security updates exists for longer than the release itself.
const SERIES: [(&str, &str); 3] =
    [("5.10", "bullseye-security"), ("6.1", "bookworm-security"), ("6.12", "trixie")];
/// The first version with `-device igb`.
const QEMU_MAJOR: u32 = 8;
/// The modules that the guest loads unless they are built in. The modules that they depend on are
/// loaded, too.
const DRIVERS: [&str; 4] = ["virtio_pci", "igb", "virtio_net", "veth"];
/// The same for the suites, which make interfaces of all kinds and use the files of this machine
/// (9p).
const MORE_DRIVERS: [&str; 5] = ["tun", "bridge", "8021q", "9pnet_virtio", "9p"];

/// A QEMU: installed or unpacked.
pub(crate) struct Qemu {
    program: PathBuf,
    /// The root of its libraries and firmware; `None` for an installed QEMU.
    root: Option<PathBuf>,
}

/// The choice of the guest's kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    /// The newest kernel in the cache, or else the newest of Debian.
    Newest,
    /// The kernel of a Debian release, by its first numbers, and the suite that has it.
    Series(&'static str, &'static str),
    /// This version, from the suite with the newest kernels.
    Exact(String),
}

/// A kernel, and the modules that the guest loads, in this order.
pub(crate) struct Kernel {
    pub(crate) version: String,
    pub(crate) image: PathBuf,
    pub(crate) modules: Vec<PathBuf>,
    /// Modules that are loaded next, and only for the suites.
    pub(crate) more_modules: Vec<PathBuf>,
}

impl Qemu {
    /// Finds an installed or unpacked QEMU, or unpacks one.
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

impl Choice {
    fn suite(&self) -> &'static str {
        match self {
            Self::Series(_, suite) => suite,
            Self::Newest | Self::Exact(_) => NEWEST_SUITE,
        }
    }

    /// The directory of the unpacked kernels of this choice.
    fn directory(&self, cache: &Path) -> PathBuf {
        cache.join("kernels").join(self.suite())
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "newest" {
            return Ok(Self::Newest);
        }
        if let Some((name, suite)) = SERIES.into_iter().find(|(name, _)| *name == text) {
            return Ok(Self::Series(name, suite));
        }
        if text.contains("-amd64") && !text.contains('/') {
            return Ok(Self::Exact(text.to_owned()));
        }
        let series = SERIES.map(|(name, _)| name).join(", ");
        Err(format!("write {series}, newest, or a version such as 6.19.14+deb13-amd64"))
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Newest => "newest",
            Self::Series(name, _) => name,
            Self::Exact(version) => version,
        })
    }
}

impl Kernel {
    /// The kernel of this choice: the newest suitable one of the cache, or else an unpacked one.
    pub(crate) fn get(cache: &Path, choice: &Choice) -> Result<Self, String> {
        let directory = choice.directory(cache);
        let cached = match choice {
            Choice::Exact(version) => Some(directory.join(version)),
            Choice::Newest | Choice::Series(..) => {
                list(&directory).into_iter().max_by_key(|path| numbers(path))
            }
        };
        if let Some(directory) = cached
            && let Some(kernel) = Self::open(&directory)
        {
            return Ok(kernel);
        }
        let directory = unpack_kernel(cache, choice)?;
        Self::open(&directory).ok_or_else(|| format!("{} is incomplete", directory.display()))
    }

    fn open(directory: &Path) -> Option<Self> {
        let kernel = Self {
            version: directory.file_name()?.to_string_lossy().into_owned(),
            image: directory.join("vmlinuz"),
            modules: list(&directory.join(MODULES[0])),
            more_modules: list(&directory.join(MODULES[1])),
        };
        let is_complete = fs::read_to_string(directory.join(DRIVERS_FILE)).ok()? == drivers();
        (is_complete && kernel.image.is_file()).then_some(kernel)
    }

    /// Whether this is Linux `major`.`minor` or newer.
    pub(crate) fn is_at_least(&self, major: u32, minor: u32) -> bool {
        numbers(Path::new(&self.version)) >= vec![major, minor]
    }
}

/// The directories of modules, below the directory of a kernel.
const MODULES: [&str; 2] = ["modules", "more-modules"];

fn drivers() -> String {
    [&DRIVERS[..], &MORE_DRIVERS].concat().join(" ")
}

/// The file with the list of drivers for which a kernel was unpacked. A kernel with an older list
/// may lack some.
const DRIVERS_FILE: &str = "drivers";
const PROGRAM: &str = "qemu-system-x86_64";
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];

/// The numbers in the name of a kernel's directory, for comparing versions.
fn numbers(path: &Path) -> Vec<u32> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// Unpacks QEMU and the libraries that this machine does not have.
fn unpack_qemu(cache: &Path) -> Result<(), String> {
    let apt = Apt::new(cache, NEWEST_SUITE)?;
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

/// Whether the QEMU that the machine would install has igb.
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

/// Unpacks a kernel and returns its directory.
fn unpack_kernel(cache: &Path, choice: &Choice) -> Result<PathBuf, String> {
    let suite = choice.suite();
    let apt = Apt::new(cache, suite)?;
    let version = match choice {
        Choice::Exact(version) => version.clone(),
        Choice::Newest | Choice::Series(..) => apt
            .depends(suite, "linux-image-amd64")?
            .iter()
            .filter_map(|package| package.strip_prefix("linux-image-"))
            .find(|version| version.starts_with(|c: char| c.is_ascii_digit()))
            .map(str::to_owned)
            .ok_or_else(|| format!("{suite} has no kernel"))?,
    };
    // The image is in one package with the modules. In other versions, there are separate packages
    // for the image, the modules and the list of built-in modules.
    let image = format!("linux-image-{version}");
    let mut packages = vec![image.clone()];
    packages.extend(apt.depends(suite, &image)?.into_iter().filter(|package| {
        let parts = ["linux-base-", "linux-binary-", "linux-modules-"];
        parts.iter().any(|prefix| package.starts_with(prefix))
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
    create(&result)?;
    copy(&image, &result.join("vmlinuz"))?;
    let available = Available::below(&root, &version);
    let mut order = Vec::new();
    for (directory, drivers) in MODULES.into_iter().zip([&DRIVERS[..], &MORE_DRIVERS]) {
        let modules = result.join(directory);
        create(&modules)?;
        let before = order.len();
        for driver in drivers {
            available.add(driver, &mut order).map_err(|missing| {
                format!("no module {missing} in what {suite} still has of {version}; take another")
            })?;
        }
        for (number, (name, bytes)) in order.iter().enumerate().skip(before) {
            write(&modules.join(format!("{number:02}-{name}.ko")), bytes)?;
        }
    }
    write(&result.join(DRIVERS_FILE), drivers().as_bytes())?;
    let directory = choice.directory(cache);
    create(&directory)?;
    let directory = directory.join(&version);
    scratch.keep("result", &directory)?;
    Ok(directory)
}

/// The modules of a kernel: files, and the parts of its image.
struct Available {
    files: Vec<PathBuf>,
    built_in: Vec<String>,
}

impl Available {
    fn below(root: &Path, version: &str) -> Self {
        let lists = ["usr/lib", "lib"].map(|library| {
            root.join(library).join("modules").join(version).join("modules.builtin")
        });
        let lists = lists.iter().filter_map(|path| fs::read_to_string(path).ok());
        let names = |list: String| {
            list.lines().map(|line| module_name(Path::new(line))).collect::<Vec<_>>()
        };
        Self { files: modules_below(root), built_in: lists.flat_map(names).collect() }
    }

    /// Adds the module `name` to `order`, after its dependencies. A built-in module is not added.
    fn add(&self, name: &str, order: &mut Vec<(String, Vec<u8>)>) -> Result<(), String> {
        let is_there = order.iter().any(|(present, _)| present == name);
        if is_there || self.built_in.iter().any(|present| present == name) {
            return Ok(());
        }
        let path = self.files.iter().find(|path| module_name(path) == name).ok_or(name)?;
        let bytes = decompress(path)?;
        for dependency in dependencies(&bytes) {
            self.add(&dependency, order)?;
        }
        order.push((name.to_owned(), bytes));
        Ok(())
    }
}

/// `i2c_algo_bit` for `…/i2c-algo-bit.ko.xz`: module names have underscores.
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

/// The dependencies of a module: `depends=` in its section `.modinfo`, whose entries end with a
/// zero byte each. Packages have no `modules.dep`, which is made during installation.
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
    fn kernels_are_named_by_series_or_version() {
        for name in ["5.10", "6.1", "6.12", "newest", "7.2.12+deb13-amd64"] {
            assert_eq!(name.parse::<Choice>().unwrap().to_string(), name);
        }
        for wrong in ["", "6", "5.11", "../x-amd64"] {
            assert!(wrong.parse::<Choice>().unwrap_err().contains("5.10, 6.1, 6.12"), "{wrong}");
        }
        let kernel = |version: &str| Kernel {
            version: version.to_owned(),
            image: PathBuf::new(),
            modules: Vec::new(),
            more_modules: Vec::new(),
        };
        assert!(kernel("6.1.0-50-amd64").is_at_least(6, 1));
        assert!(!kernel("5.10.0-46-amd64").is_at_least(5, 13));
        assert!(kernel("7.3.4+deb13-amd64").is_at_least(6, 14));
    }

    #[test]
    fn what_is_built_in_is_not_loaded() {
        let available = Available { files: Vec::new(), built_in: vec!["virtio_pci".to_owned()] };
        let mut order = Vec::new();
        assert_eq!(available.add("virtio_pci", &mut order), Ok(()));
        assert_eq!(available.add("igb", &mut order), Err("igb".to_owned()));
        assert!(order.is_empty());
    }

    #[test]
    fn modules_come_after_what_they_need() {
        let module = b"\0license=GPL\0depends=dca,i2c-algo-bit\0retpoline=Y\0";
        assert_eq!(dependencies(module), ["dca", "i2c_algo_bit"]);
        assert!(dependencies(b"\0depends=\0").is_empty());
        assert_eq!(module_name(Path::new("/x/i2c-algo-bit.ko.xz")), "i2c_algo_bit");
    }
}
