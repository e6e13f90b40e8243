//! Programs that make packages, installed in `target/tools` when they are missing.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use crate::cargo;
use crate::context::{root, target_directory};
use crate::setup;

/// A program of crates.io.
#[derive(Clone, Copy)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// The version to build if none is installed.
    pub(super) version: &'static str,
}

/// MIT licence.
pub(super) const CARGO_DEB: Tool = Tool { name: "cargo-deb", version: "3.8.0" };
/// MIT licence.
pub(super) const CARGO_GENERATE_RPM: Tool = Tool { name: "cargo-generate-rpm", version: "0.21.1" };
/// Apache-2.0 licence.
pub(super) const CARGO_CYCLONEDX: Tool = Tool { name: "cargo-cyclonedx", version: "0.5.9" };

impl Tool {
    /// The program, at the root of the workspace.
    ///
    /// # Errors
    /// It is missing, and cannot be installed.
    pub(super) fn command(self) -> Result<Command, String> {
        let directory = target_directory().join("tools");
        let find = || -> Option<PathBuf> {
            let own = directory.join("bin").join(self.name);
            if own.is_file() { Some(own) } else { setup::find(self.name) }
        };
        if find().is_none() {
            let mut install = cargo::stable(&["install", "--locked", self.name]);
            install.args(["--version", self.version, "--root"]).arg(&directory);
            cargo::succeeds(install.env("CARGO_TARGET_DIR", directory.join("build")));
        }
        let program = find().ok_or_else(|| {
            format!(
                "missing: {0}; cargo install --locked {0} --version {1}",
                self.name, self.version
            )
        })?;
        let mut command = Command::new(program);
        command.current_dir(root()).env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTFLAGS");
        // It calls cargo: the same one as this program.
        if let Some(cargo) = env::var_os("CARGO") {
            command.env("CARGO", cargo);
        }
        Ok(command)
    }
}
