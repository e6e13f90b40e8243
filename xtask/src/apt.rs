//! apt with a separate configuration and separate package lists. It downloads and verifies
//! packages, which are unpacked instead of installed.
//!
//! It adds no source to the machine, and needs no privilege.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, run};
use crate::files::{create, list, write};

const DEBIAN: &str = "http://deb.debian.org/debian";
/// The security updates of all releases, which mirrors do not have.
const SECURITY: &str = "http://deb.debian.org/debian-security";

/// apt with separate lists and sources.
pub(crate) struct Apt {
    options: Vec<String>,
    /// The code name of the machine's Debian release, if it is one.
    pub(crate) release: Option<String>,
}

impl Apt {
    /// With fresh lists of the machine's own Debian or Ubuntu sources, of its backports, and of
    /// `suite` of Debian.
    pub(crate) fn new(cache: &Path, suite: &str) -> Result<Self, String> {
        let (sources, release) = sources(suite);
        Self::with(cache, &sources, release)
    }

    /// With fresh lists of the machine's own Debian or Ubuntu sources.
    pub(crate) fn of_the_machine(cache: &Path) -> Result<Self, String> {
        Self::with(cache, &source_list(&targets(), None, None), None)
    }

    /// With fresh lists of `suite` of Debian alone, and for a machine on which nothing is
    /// installed.
    pub(crate) fn of_suite(cache: &Path, suite: &str) -> Result<Self, String> {
        let mut apt = Self::with(cache, &source_list("", None, Some(suite)), None)?;
        let status = cache.join("apt/status");
        write(&status, b"")?;
        apt.options.push(format!("Dir::State::status={}", status.display()));
        Ok(apt)
    }

    /// With fresh lists of the sources of packages in `suite` of Debian.
    pub(crate) fn of_sources(cache: &Path, suite: &str) -> Result<Self, String> {
        let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
        Self::with(cache, &format!("deb-src [signed-by={keyring}] {DEBIAN} {suite} main\n"), None)
    }

    fn with(cache: &Path, sources: &str, release: Option<String>) -> Result<Self, String> {
        if cargo::output(Command::new("apt-get").arg("--version")).is_none() {
            return Err("needs apt (Debian or Ubuntu) to download packages".into());
        }
        let directory = cache.join("apt");
        create(&directory.join("lists/partial"))?;
        create(&directory.join("archives/partial"))?;
        write(&directory.join("sources.list"), sources.as_bytes())?;
        let path = directory.display();
        let apt = Self {
            options: vec![
                format!("Dir::Etc::sourcelist={path}/sources.list"),
                "Dir::Etc::sourceparts=/dev/null".into(),
                format!("Dir::State::lists={path}/lists"),
                format!("Dir::Cache={path}"),
                "Acquire::Languages=none".into(),
                // This user owns all its files: with root, apt needs neither the lock nor the user
                // _apt.
                "Debug::NoLocking=true".into(),
                "APT::Sandbox::User=".into(),
            ],
            release,
        };
        run(apt.command("apt-get").args(["update", "-qq"]))?;
        Ok(apt)
    }

    /// `apt-get install` of these packages and of their missing dependencies, as far as the
    /// download to `directory`.
    pub(crate) fn download(&self, directory: &Path, packages: &[&str]) -> Command {
        let mut command = self.command("apt-get");
        command.args(["install", "-y", "-qq", "--download-only", "--no-install-recommends"]);
        command.arg("-o").arg(format!("Dir::Cache::archives={}", directory.display()));
        command.args(packages);
        command
    }

    /// Downloads the sources of a package to `directory`.
    pub(crate) fn source(&self, directory: &Path, package: &str) -> Command {
        let mut command = self.command("apt-get");
        command.args(["source", "-qq", "--download-only", package]).current_dir(directory);
        command
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C");
        for option in &self.options {
            command.args(["-o", option]);
        }
        command
    }

    /// The packages that `package` of `suite` depends on.
    pub(crate) fn depends(&self, suite: &str, package: &str) -> Result<Vec<String>, String> {
        let list = cargo::output(self.command("apt-cache").args(["depends", "-t", suite, package]))
            .ok_or_else(|| format!("{suite} has no package {package}"))?;
        let depends = |line: &str| line.trim().strip_prefix("Depends: ").map(str::to_owned);
        Ok(list.lines().filter_map(depends).collect())
    }
}

/// The machine's own Debian or Ubuntu sources, its backports, and the source of `suite`. Also the
/// code name of the machine's release if it is Debian.
fn sources(suite: &str) -> (String, Option<String>) {
    let release = fs::read_to_string("/etc/os-release").ok().and_then(|file| debian_release(&file));
    (source_list(&targets(), release.as_deref(), Some(suite)), release)
}

/// The package lists of the machine's apt.
fn targets() -> String {
    let format = "$(ORIGIN) $(RELEASE) $(COMPONENT) $(REPO_URI)";
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", format, "Created-By: Packages"]);
    cargo::output(&mut command).unwrap_or_default()
}

fn debian_release(os_release: &str) -> Option<String> {
    let field = |name| os_release.lines().find_map(|line| line.strip_prefix(name));
    (field("ID=") == Some("debian")).then(|| field("VERSION_CODENAME=").map(str::to_owned))?
}

fn source_list(targets: &str, release: Option<&str>, suite: Option<&str>) -> String {
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
    if let Some(suite) = suite {
        add("Debian", if suite.ends_with("-security") { SECURITY } else { mirror }, suite, "main");
    }
    lines.into_iter().collect()
}

/// Unpacks all packages in `directory`.
pub(crate) fn unpack(directory: &Path, root: &Path) -> Result<(), String> {
    for path in list(directory) {
        if path.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(path).arg(root))?;
        }
    }
    Ok(())
}

/// A directory in the cache that is removed when it is dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(cache: &Path, name: &str) -> Result<Self, String> {
        let scratch = Self(cache.join(format!("{name}-{}", std::process::id())));
        create(&scratch.0.join("partial"))?;
        Ok(scratch)
    }

    /// Renames `name` in this directory to `target`. The rename is atomic, so entries of the cache
    /// are complete.
    pub(crate) fn keep(self, name: &str, target: &Path) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const SUITE: &str = "trixie-backports";

    #[test]
    fn sources_follow_the_machine() {
        let targets = "\
Debian bookworm main http://mirror.example/debian/
Debian bookworm-security main http://mirror.example/debian-security/
Other nodistro main https://other.example/
";
        let list = source_list(targets, Some("bookworm"), Some(SUITE));
        for (uri, suite) in [
            ("http://mirror.example/debian", "bookworm"),
            ("http://mirror.example/debian", "bookworm-backports"),
            ("http://mirror.example/debian", SUITE),
            ("http://mirror.example/debian-security", "bookworm-security"),
        ] {
            assert!(list.contains(&format!(".gpg] {uri} {suite} main\n")), "{suite} in {list}");
        }
        assert_eq!(list.lines().count(), 4);
    }

    #[test]
    fn security_updates_have_an_archive_of_their_own() {
        let list = source_list("", None, Some("bullseye-security"));
        assert!(list.ends_with(&format!("] {SECURITY} bullseye-security main\n")), "{list}");
    }

    #[test]
    fn sources_without_debian_are_its_public_ones() {
        let list =
            source_list("Ubuntu noble main http://mirror.example/ubuntu/\n", None, Some(SUITE));
        assert!(
            list.contains("ubuntu-archive-keyring.gpg] http://mirror.example/ubuntu noble main")
        );
        assert!(list.contains(&format!("{DEBIAN} {SUITE} main")));
        assert_eq!(list.lines().count(), 2);
    }

    #[test]
    fn release_is_that_of_debian() {
        let file = "NAME=x\nVERSION_CODENAME=bookworm\nID=debian\n";
        assert_eq!(debian_release(file).as_deref(), Some("bookworm"));
        assert_eq!(debian_release("ID=ubuntu\nVERSION_CODENAME=noble\n"), None);
    }
}
