//! Packages for Fedora and Red Hat, by cargo-generate-rpm.

use super::build::Package;
use super::tool::CARGO_GENERATE_RPM;
use crate::cargo;
use crate::context::target_directory;
use crate::step::Outcome;

/// Makes one package: the command, with its library for programs over libpcap.
pub(super) fn run(package: &Package) -> Outcome {
    let mut command = match CARGO_GENERATE_RPM.command() {
        Ok(command) => command,
        Err(note) => return package.context.unavailable(1, note),
    };
    command.args(["-p", "crates/wirelane-cli", "--auto-req", "builtin", "-o"]);
    command.arg(&package.dist).arg("--target-dir").arg(target_directory());
    Outcome::single(cargo::succeeds(&mut command))
}
