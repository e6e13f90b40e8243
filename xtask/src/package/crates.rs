//! An archive from which cargo builds and installs every published crate without a network: the
//! crates, and all crates that they depend on, as a directory that replaces crates.io.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::build::{Package, VERSION};
use crate::cargo;
use crate::context;
use crate::files;
use crate::step::Outcome;

pub(super) const ABOUT: &str = "all crates and their dependencies, to install without a network";

const CHECKSUM: &str = ".cargo-checksum.json";

/// Where cargo finds crates: in the directory `vendor` beside the file.
const CONFIG: &str = "\
[source.crates-io]
replace-with = \"vendor\"

[source.vendor]
directory = \"vendor\"
";

/// The instructions in the archive.
fn instructions() -> String {
    format!(
        "# Wirelane {VERSION}: all crates\n\n\
         The crates of Wirelane, and all crates that they depend on, are in `vendor`. In this\n\
         directory, cargo takes crates from there (`.cargo/config.toml`) and needs no network:\n\n    \
         cargo install --offline --locked --path vendor/wirelane-cli-{VERSION}\n\n\
         The other programs are `wirelane-bench` and `wirelane-query`. To build a program of your\n\
         own with the libraries, copy `.cargo` and `vendor` beside its `Cargo.toml`. Crates that\n\
         only Windows needs are empty.\n"
    )
}

/// Writes `wirelane-crates-VERSION.tar.zst`.
pub(super) fn run(package: &Package) -> Outcome {
    match archive(package) {
        Ok(path) => Outcome { notes: vec![size(&path)], ..Outcome::single(true) },
        Err(error) => Outcome::failure(format!("the archive of the crates: {error}")),
    }
}

fn archive(package: &Package) -> io::Result<PathBuf> {
    let work = context::target_directory().join("crate-archive");
    let top = work.join(format!("wirelane-crates-{VERSION}"));
    files::remove(&work)?;
    fs::create_dir_all(top.join(".cargo"))?;
    let names = published()?;
    let mut crates = cargo::stable(&["package", "--no-verify", "--allow-dirty", "--quiet"]);
    must(crates.args(names.iter().flat_map(|name| ["-p", name])))?;
    let vendor = top.join("vendor");
    let mut command = cargo::stable(&["vendor", "--locked", "--versioned-dirs", "--quiet"]);
    must(command.arg(&vendor).stdout(io::stderr()))?;
    for name in &names {
        add(name, &vendor)?;
    }
    for path in files::list(&vendor) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if ["windows", "winapi"].iter().any(|start| name.starts_with(start)) {
            empty(&path)?;
        }
    }
    fs::write(top.join(".cargo/config.toml"), CONFIG)?;
    fs::write(top.join("README.md"), instructions())?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(context::root().join(licence), top.join(licence))?;
    }
    let path = package.pack(&top, "zstd -T0 -15").map_err(io::Error::other)?;
    fs::remove_dir_all(&work)?;
    Ok(path)
}

/// The names of the workspace's crates that may be published.
fn published() -> io::Result<Vec<String>> {
    let mut command = cargo::stable(&["metadata", "--format-version", "1", "--no-deps"]);
    let text = cargo::output(&mut command).unwrap_or_default();
    let metadata: Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    // `publish = false` is an empty list of registries.
    let published = packages.filter(|package| package["publish"].is_null());
    let names = published.filter_map(|package| package["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// Unpacks a crate of the workspace among the others, with the checksum that lock files have.
fn add(name: &str, vendor: &Path) -> io::Result<()> {
    let file = format!("package/{name}-{VERSION}.crate");
    let file = context::target_directory().join(file);
    must(Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(vendor))?;
    let sum = cargo::output(Command::new("sha256sum").arg(&file)).unwrap_or_default();
    let sum = sum.split(' ').next().unwrap_or_default();
    write_checksum(&vendor.join(format!("{name}-{VERSION}")), &json!(sum))
}

/// Leaves of a crate what cargo reads of a dependency that it does not build: half of the bytes of
/// all crates are for Windows.
fn empty(path: &Path) -> io::Result<()> {
    let text = fs::read_to_string(path.join(CHECKSUM))?;
    let checksum: Value = serde_json::from_str(&text)?;
    let manifest = fs::read_to_string(path.join("Cargo.toml"))?;
    fs::remove_dir_all(path)?;
    fs::create_dir_all(path.join("src"))?;
    fs::write(path.join("Cargo.toml"), manifest)?;
    fs::write(path.join("src/lib.rs"), "")?;
    write_checksum(path, &checksum["package"])
}

/// Cargo compares the listed files, here none, and the checksum of the package with lock files.
fn write_checksum(path: &Path, package: &Value) -> io::Result<()> {
    let checksum = json!({ "files": {}, "package": package });
    fs::write(path.join(CHECKSUM), checksum.to_string())
}

fn size(path: &Path) -> String {
    let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
    format!("{}: {:.1} MB", path.display(), bytes as f64 / 1e6)
}

fn must(command: &mut Command) -> io::Result<()> {
    cargo::run(command).map_err(io::Error::other)
}
