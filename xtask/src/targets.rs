//! Targets of the toolchain, installed by rustup.

use std::process::Command;

use crate::step::Outcome;
use crate::{cargo, setup};

/// The outcome of a step that needs `target`, if it is missing and rustup cannot install it.
pub(crate) fn without(target: &str) -> Option<Outcome> {
    if !has(target) && setup::find("rustup").is_some() {
        cargo::succeeds(Command::new("rustup").args(["target", "add", target]));
    }
    (!has(target)).then(|| Outcome::skip(format!("needs: rustup target add {target}")))
}

fn has(target: &str) -> bool {
    cargo::output(Command::new("rustup").args(["target", "list", "--installed"]))
        .is_some_and(|list| list.lines().any(|line| line == target))
}
