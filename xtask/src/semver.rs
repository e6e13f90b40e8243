//! The step `semver`: the public items are compatible with the last release, as Semantic Versioning
//! requires. It runs only when it is named, because it builds the documentation twice.

use std::process::Command;

use crate::context::{Context, root};
use crate::setup;
use crate::step::Outcome;
use crate::{api, cargo};

/// Runs `cargo semver-checks` against the last tag; skips the step if there is no tag or program.
pub(crate) fn run(_context: &Context) -> Outcome {
    let mut describe = Command::new("git");
    describe.args(["describe", "--tags", "--abbrev=0", "--match", "v*"]).current_dir(root());
    let tag = cargo::output(&mut describe);
    check(tag.as_deref(), setup::find("cargo-semver-checks").is_some())
        .unwrap_or_else(|tag| compare(&tag))
}

/// The reason why the step cannot run, or else the tag of the last release.
fn check(tag: Option<&str>, has_program: bool) -> Result<Outcome, String> {
    let Some(tag) = tag.map(str::trim).filter(|tag| !tag.is_empty()) else {
        return Ok(Outcome::skip("there is no release to compare with: no tag v*"));
    };
    if !has_program {
        return Ok(Outcome::skip(
            "the API was not compared with the last release: needs cargo-semver-checks (cargo \
             install --locked cargo-semver-checks)",
        ));
    }
    Err(tag.to_owned())
}

/// Compares the crates with a snapshot of their public items.
fn compare(tag: &str) -> Outcome {
    let crates = match api::crates() {
        Ok(crates) => crates,
        Err(error) => return Outcome::failure(format!("cannot read the crates: {error}")),
    };
    let mut command = cargo::stable(&["semver-checks", "--baseline-rev", tag]);
    command.args(crates.iter().flat_map(|name| ["-p", name]));
    Outcome::single(cargo::succeeds(&mut command))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn without_a_release_or_the_program_it_is_skipped() {
        for (tag, has_program) in [(None, true), (Some("\n"), true), (Some("v0.1.0\n"), false)] {
            let outcome = check(tag, has_program).expect("it cannot run");
            assert_eq!((outcome.failed, outcome.skipped), (0, 1));
        }
        assert_eq!(check(Some("v0.1.0\n"), true), Err("v0.1.0".to_owned()));
    }
}
