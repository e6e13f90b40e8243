//! Packages for Debian, by cargo-deb.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::build::{CAPI, CRATES, Package, VERSION};
use super::release::SONAME;
use super::tool::CARGO_DEB;
use crate::cargo;
use crate::context::root;
use crate::files;
use crate::step::Outcome;

/// Writes what only these packages contain: the changelog of the packages, and `wirelane.pc`.
pub(super) fn stage(stage: &Path) -> io::Result<()> {
    let changelog = format!(
        "wirelane ({VERSION}-1) unstable; urgency=medium\n\n  * See \
         /usr/share/doc/wirelane/NEWS.gz of the package wirelane.\n\n -- {MAINTAINER}  {}\n",
        date()
    );
    fs::write(stage.join("changelog"), changelog)?;
    fs::copy(root().join("CHANGELOG.md"), stage.join("NEWS"))?;
    fs::write(stage.join("wirelane.pc"), pkg_config())
}

/// As in the manifests.
const MAINTAINER: &str = "The Wirelane authors <maintainers@wirelane.invalid>";

/// The time of the last commit, so that the same source makes the same package.
fn date() -> String {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%cD"]).current_dir(root());
    let date = cargo::output(&mut git).unwrap_or_default();
    match date.trim() {
        "" => "Thu, 01 Jan 1970 00:00:00 +0000".to_owned(),
        // `1 Nov` needs two digits.
        date => match date.split_once(", ") {
            Some((day, rest)) if rest.as_bytes().get(1) == Some(&b' ') => format!("{day}, 0{rest}"),
            _ => date.to_owned(),
        },
    }
}

fn pkg_config() -> String {
    format!(
        "prefix=/usr\nincludedir=${{prefix}}/include\n\nName: wirelane\n\
         Description: Multi-queue packet I/O\nVersion: {VERSION}\nLibs: -lwirelane\n\
         Cflags: -I${{includedir}}\n"
    )
}

/// The options of cargo-deb for each package of a crate.
const PROGRAM: &[&[&str]] = &[&[]];
const LIBRARY: &[&[&str]] =
    &[&["--multiarch", "same"], &["--multiarch", "same", "--variant", "shared"]];

/// Makes the packages.
pub(super) fn run(package: &Package) -> Outcome {
    let mut outcome = Outcome::default();
    for name in CRATES {
        if !package.has(name) {
            outcome += Outcome::skip(format!("{name} is left out"));
            continue;
        }
        // The header and the shared library are separate packages.
        let variants = if name == CAPI { LIBRARY } else { PROGRAM };
        for options in variants {
            let mut command = match CARGO_DEB.command() {
                Ok(command) => command,
                Err(note) => return package.context.unavailable(1, note),
            };
            command.args(["--no-build", "--locked", "-p", name, "-o"]).arg(&package.dist);
            outcome += Outcome::single(cargo::succeeds(command.args(*options)));
        }
    }
    for library in package.results(".deb").iter().filter(|path| is_library(path)) {
        let added = add_shlibs(library, &package.stage.with_file_name("library"));
        outcome += added.map_or_else(Outcome::failure, |()| Outcome::single(true));
    }
    outcome
}

fn is_library(package: &Path) -> bool {
    let name = package.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("libwirelane0") && name.contains(VERSION)
}

/// Adds the file `shlibs`, by which packages of programs find their dependency on the library.
/// cargo-deb cannot add it.
fn add_shlibs(package: &Path, place: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", place.display());
    files::remove(place).map_err(failed)?;
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--raw-extract").arg(package).arg(place);
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "--build"]).arg(place).arg(package);
    let (name, version) = SONAME.split_once(".so.").unwrap_or((SONAME, ""));
    let text = format!("{name} {version} {name}{version} (>= {VERSION})\n");
    cargo::run(&mut unpack)?;
    fs::write(place.join("DEBIAN/shlibs"), text).map_err(failed)?;
    cargo::run(&mut pack)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str) -> String {
        fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap()
    }

    /// A manifest cannot refer to the version of the workspace in a dependency.
    #[test]
    fn dependencies_among_packages_have_the_version_of_the_workspace() {
        for name in CRATES {
            let text = manifest(name);
            assert!(text.contains("[package.metadata.deb]") && text.contains(MAINTAINER), "{name}");
            let versions = text.split("(= ").skip(1).map(|rest| rest.split(')').next().unwrap());
            for version in versions {
                assert_eq!(version, format!("{VERSION}-1"), "{name}");
            }
        }
    }

    #[test]
    fn the_package_of_the_library_is_named_after_its_soname() {
        let text = manifest(CAPI);
        let mut parts = VERSION.split('.');
        let version = format!("{}.{}", parts.next().unwrap(), parts.next().unwrap());
        assert_eq!(SONAME, format!("libwirelane.so.{version}"));
        assert!(text.contains(&format!("name = \"libwirelane{version}\"")));
        assert!(text.contains(SONAME));
    }
}
