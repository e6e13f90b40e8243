//! Bills of materials (a CycloneDX file per package), and checksums of all files.

use std::fs;
use std::process::Command;

use super::build::{Package, VERSION};
use super::tool::CARGO_CYCLONEDX;
use crate::cargo;
use crate::context::root;
use crate::files::list;
use crate::step::Outcome;

/// Writes `CRATE-VERSION.cdx.json` for each crate.
pub(super) fn run(package: &Package) -> Outcome {
    let mut command = match CARGO_CYCLONEDX.command() {
        Ok(command) => command,
        Err(note) => return package.context.unavailable(1, note),
    };
    // The program writes a file beside each manifest of the workspace.
    command.args(["cyclonedx", "--format", "json", "--override-filename", NAME]);
    let succeeded = cargo::succeeds(&mut command);
    let mut outcome = Outcome::single(succeeded);
    for name in package.crates() {
        let from = root().join("crates").join(name).join(FILE);
        let to = package.dist.join(format!("{name}-{VERSION}.cdx.json"));
        let copied = fs::copy(&from, &to);
        outcome += Outcome::single(
            copied.inspect_err(|error| println!("{}: {error}", from.display())).is_ok(),
        );
    }
    let crates = list(&root().join("crates"));
    for directory in crates.into_iter().chain([root().join("xtask")]) {
        let _ = fs::remove_file(directory.join(FILE));
    }
    outcome
}

const NAME: &str = "materials";
const FILE: &str = "materials.json";

/// Writes `SHA256SUMS`, for `sha256sum -c`.
pub(super) fn sums(package: &Package) -> Outcome {
    const SUMS: &str = "SHA256SUMS";
    let _ = fs::remove_file(package.dist.join(SUMS));
    let names: Vec<_> = package
        .results("")
        .into_iter()
        .filter_map(|path| path.file_name().map(ToOwned::to_owned))
        .collect();
    let mut command = Command::new("sha256sum");
    let Some(sums) = cargo::output(command.args(names).current_dir(&package.dist)) else {
        return Outcome::failure("sha256sum failed");
    };
    Outcome::single(fs::write(package.dist.join(SUMS), sums).is_ok())
}
