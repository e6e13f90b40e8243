//! Debian packages, unpacked into a cache: a QEMU that emulates igb, and a recent kernel.
//!
//! apt downloads and verifies, with an own configuration and own lists in the cache: nothing is
//! installed, no source is added to the machine, and no privilege is needed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo;
use crate::setup;

/// Where Debian's recent kernels are, whatever the machine runs.
const KERNEL_SUITE: &str = "trixie-backports";
const DEBIAN: &str = "http://deb.debian.org/debian";
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
    let apt = Apt::new(cache)?;
    let backports = apt.release.as_ref().map(|release| format!("{release}-backports"));
    let scratch = Scratch::new(cache, "qemu")?;
    let mut install = apt.command("apt-get");
    install.args(["install", "-y", "-qq", "--download-only", "--no-install-recommends"]);
    install.arg("-o").arg(format!("Dir::Cache::archives={}", scratch.0.display()));
    if let (Some(backports), false) = (&backports, candidate_is_enough()) {
        install.args(["-t", backports]);
    }
    run(install.arg("qemu-system-x86"))?;
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
    let apt = Apt::new(cache)?;
    let version = match version {
        Some(version) => version.to_owned(),
        None => apt
            .depends("linux-image-amd64")?
            .iter()
            .filter_map(|package| package.strip_prefix("linux-image-"))
            .find(|version| version.starts_with(|c: char| c.is_ascii_digit()))
            .map(str::to_owned)
            .ok_or_else(|| format!("{KERNEL_SUITE} has no kernel"))?,
    };
    // The image is in one package with the modules, or in a package beside theirs.
    let image = format!("linux-image-{version}");
    let mut packages = vec![image.clone()];
    packages.extend(apt.depends(&image)?.into_iter().filter(|package| {
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

/// apt with lists and sources of its own.
struct Apt {
    options: Vec<String>,
    /// The code name of the machine's Debian release, if it is one.
    release: Option<String>,
}

impl Apt {
    /// With fresh lists.
    fn new(cache: &Path) -> Result<Self, String> {
        if setup::find("apt-get").is_none() {
            return Err("needs apt (Debian or Ubuntu) to download QEMU and a kernel".into());
        }
        let directory = cache.join("apt");
        create(&directory.join("lists/partial"))?;
        create(&directory.join("archives/partial"))?;
        let (sources, release) = sources();
        write(&directory.join("sources.list"), sources.as_bytes())?;
        let path = directory.display();
        let apt = Self {
            options: vec![
                format!("Dir::Etc::sourcelist={path}/sources.list"),
                "Dir::Etc::sourceparts=/dev/null".into(),
                format!("Dir::State::lists={path}/lists"),
                format!("Dir::Cache={path}"),
                "Acquire::Languages=none".into(),
                // All it writes is ours: root neither has to lock out others nor to become _apt.
                "Debug::NoLocking=true".into(),
                "APT::Sandbox::User=".into(),
            ],
            release,
        };
        run(apt.command("apt-get").args(["update", "-qq"]))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
        for option in &self.options {
            command.args(["-o", option]);
        }
        command
    }

    /// The packages that `package` depends on.
    fn depends(&self, package: &str) -> Result<Vec<String>, String> {
        let list =
            cargo::output(self.command("apt-cache").args(["depends", "-t", KERNEL_SUITE, package]))
                .ok_or_else(|| format!("{KERNEL_SUITE} has no package {package}"))?;
        let depends = |line: &str| line.trim().strip_prefix("Depends: ").map(str::to_owned);
        Ok(list.lines().filter_map(depends).collect())
    }
}

/// The machine's own Debian or Ubuntu sources, its backports, and those of [`KERNEL_SUITE`], and
/// the code name of the machine's release if it is Debian.
fn sources() -> (String, Option<String>) {
    let format = "$(ORIGIN) $(RELEASE) $(COMPONENT) $(REPO_URI)";
    let targets = cargo::output(Command::new("apt-get").args([
        "indextargets",
        "--format",
        format,
        "Created-By: Packages",
    ]));
    let release = fs::read_to_string("/etc/os-release").ok().and_then(|file| debian_release(&file));
    (source_list(&targets.unwrap_or_default(), release.as_deref()), release)
}

fn debian_release(os_release: &str) -> Option<String> {
    let field = |name| os_release.lines().find_map(|line| line.strip_prefix(name));
    (field("ID=") == Some("debian")).then(|| field("VERSION_CODENAME=").map(str::to_owned))?
}

fn source_list(targets: &str, release: Option<&str>) -> String {
    let mut lines = BTreeSet::new();
    let mut add = |origin: &str, uri: &str, suite: &str, component: &str| {
        let keyring = format!("/usr/share/keyrings/{}-archive-keyring.gpg", origin.to_lowercase());
        lines.insert(format!("deb [arch=amd64 signed-by={keyring}] {uri} {suite} {component}\n"));
    };
    let mut mirror = DEBIAN;
    for target in targets.lines() {
        let mut words = target.split_whitespace();
        let (Some(origin @ ("Debian" | "Ubuntu")), Some(suite), Some(component), Some(uri)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        let uri = uri.trim_end_matches('/');
        add(origin, uri, suite, component);
        if origin == "Debian" && Some(suite) == release {
            mirror = uri;
        }
    }
    if let Some(release) = release {
        add("Debian", mirror, release, "main");
        add("Debian", mirror, &format!("{release}-backports"), "main");
    }
    add("Debian", mirror, KERNEL_SUITE, "main");
    lines.into_iter().collect()
}

/// Unpacks all packages in `directory`.
fn unpack(directory: &Path, root: &Path) -> Result<(), String> {
    for path in list(directory) {
        if path.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(path).arg(root))?;
        }
    }
    Ok(())
}

/// A directory in the cache that is removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(cache: &Path, name: &str) -> Result<Self, String> {
        let scratch = Self(cache.join(format!("{name}-{}", std::process::id())));
        create(&scratch.0.join("partial"))?;
        Ok(scratch)
    }

    /// Moves what is `name` in here to `target`, at once: what is in the cache is complete.
    fn keep(self, name: &str, target: &Path) -> Result<(), String> {
        let _ = fs::remove_dir_all(target);
        fs::rename(self.0.join(name), target)
            .map_err(|error| format!("cannot create {}: {error}", target.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What is in `directory`, sorted by name.
fn list(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).map(|entries| entries.flatten().collect::<Vec<_>>());
    let mut paths: Vec<_> =
        entries.unwrap_or_default().into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    if cargo::succeeds(command) { Ok(()) } else { Err(format!("{program} failed, see above")) }
}

fn create(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory)
        .map_err(|error| format!("cannot create {}: {error}", directory.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to)
        .map(drop)
        .map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_follow_the_machine() {
        let targets = "\
Debian bookworm main http://mirror.example/debian/
Debian bookworm-security main http://mirror.example/debian-security/
Other nodistro main https://other.example/
";
        let list = source_list(targets, Some("bookworm"));
        for (uri, suite) in [
            ("http://mirror.example/debian", "bookworm"),
            ("http://mirror.example/debian", "bookworm-backports"),
            ("http://mirror.example/debian", KERNEL_SUITE),
            ("http://mirror.example/debian-security", "bookworm-security"),
        ] {
            assert!(list.contains(&format!(".gpg] {uri} {suite} main\n")), "{suite} in {list}");
        }
        assert_eq!(list.lines().count(), 4);
    }

    #[test]
    fn sources_without_debian_are_its_public_ones() {
        let list = source_list("Ubuntu noble main http://mirror.example/ubuntu/\n", None);
        assert!(
            list.contains("ubuntu-archive-keyring.gpg] http://mirror.example/ubuntu noble main")
        );
        assert!(list.contains(&format!("{DEBIAN} {KERNEL_SUITE} main")));
        assert_eq!(list.lines().count(), 2);
    }

    #[test]
    fn release_is_that_of_debian() {
        let file = "NAME=x\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(debian_release(file).as_deref(), Some("bookworm"));
        assert_eq!(debian_release("ID=ubuntu\nVERSION_CODENAME=noble\n"), None);
    }

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
