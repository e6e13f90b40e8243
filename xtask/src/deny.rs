//! The step `deny`: no dependency has a known weakness that `deny.toml` does not explain.
//!
//! The step fetches nothing, so that its answer does not depend on the day. It uses the copy of the
//! database that `cargo deny fetch` made.

use std::env;
use std::path::{Path, PathBuf};

use crate::cargo;
use crate::context::Context;
use crate::setup;
use crate::step::Outcome;

/// Runs `cargo deny`; skips the step if the program or its copy of the advisories is missing.
pub(crate) fn run(_context: &Context) -> Outcome {
    check(setup::find("cargo-deny").is_some(), &advisories()).unwrap_or_else(|| {
        let mut command = cargo::stable(&["deny", "--offline", "check", "advisories"]);
        Outcome::single(cargo::succeeds(&mut command))
    })
}

/// The reason why the step cannot run, if there is one.
fn check(has_program: bool, advisories: &Path) -> Option<Outcome> {
    if !has_program {
        return Some(Outcome::skip(
            "dependencies were not compared with known advisories: needs cargo-deny (cargo install \
             --locked cargo-deny)",
        ));
    }
    if !advisories.is_dir() {
        let place = advisories.display();
        return Some(Outcome::skip(format!(
            "dependencies were not compared with known advisories: no copy of them in {place} \
             (cargo deny fetch)"
        )));
    }
    None
}

/// Where cargo-deny keeps its copies.
fn advisories() -> PathBuf {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cargo")));
    home.unwrap_or_default().join("advisory-dbs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_and_fails_nothing() {
        for outcome in [check(false, Path::new("/")), check(true, Path::new("/none"))] {
            let outcome = outcome.unwrap();
            assert_eq!((outcome.failed, outcome.skipped), (0, 1));
            assert!(outcome.notes[0].contains("were not compared"), "{outcome:?}");
        }
        assert_eq!(check(true, Path::new("/")), None);
    }
}
