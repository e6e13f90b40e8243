//! Targets of the toolchain, installed by rustup.

use std::process::Command;

use crate::{cargo, setup};

/// Whether code can be built for `target`; first installs the target if it is missing and rustup
/// can.
pub(crate) fn ensure(target: &str) -> bool {
    if !has(target) && setup::find("rustup").is_some() {
        cargo::succeeds(Command::new("rustup").args(["target", "add", target]));
    }
    has(target)
}

fn has(target: &str) -> bool {
    cargo::output(Command::new("rustup").args(["target", "list", "--installed"]))
        .is_some_and(|list| list.lines().any(|line| line == target))
}
