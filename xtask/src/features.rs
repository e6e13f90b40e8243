//! The step `features`: the libraries build with each selection of their features. Without
//! `compression` they need no C compiler, and a program that only receives has few dependencies.

use crate::cargo;
use crate::context::Context;
use crate::step::Outcome;

/// Lines of `cargo tree` for a program that only receives.
const MOST: usize = 20;

/// A crate, a selection of its features, and whether it contains C.
type Selection = (&'static str, &'static str, bool);

const SELECTIONS: [Selection; 14] = [
    ("wirelane", "", false),
    ("wirelane", "serde", false),
    ("wirelane", "compression", true),
    ("wirelane-pcap", "", false),
    ("wirelane-pcap", "compression", true),
    ("wirelane-gen", "", false),
    ("wirelane-gen", "otg", false),
    ("wirelane-send", "", false),
    ("wirelane-flow", "", false),
    ("wirelane-flow", "arrow", false),
    ("wirelane-store", "", false),
    ("wirelane-store", "record", false),
    ("wirelane-store", "compression", true),
    ("wirelane-capi", "", false),
];

pub(crate) const ABOUT: &str = "libraries with each of their features, most without C";

pub(crate) fn run(context: &Context) -> Outcome {
    let mut outcome = Outcome::default();
    for (name, features, has_c) in SELECTIONS {
        let what = ["-p", name, "--lib", "--no-default-features", "--features", features];
        let mut check = cargo::stable(&["check"]);
        check.args(what).env("CARGO_TARGET_DIR", context.target("features"));
        outcome += Outcome::single(cargo::succeeds(&mut check));
        outcome += dependencies(name, features, has_c);
    }
    outcome
}

fn dependencies(name: &str, features: &str, has_c: bool) -> Outcome {
    let what = ["-p", name, "--no-default-features", "--features", features];
    let list = cargo::output(cargo::stable(&["tree", "-e", "normal,build"]).args(what));
    let list = list.unwrap_or_default();
    let is_c = |line: &str| line.contains("-sys v") && !line.contains("linux-raw-sys v");
    let lines: Vec<_> = list.lines().collect();
    let is_receiver = name == "wirelane" && features.is_empty();
    if lines.is_empty()
        || lines.iter().any(|line| is_c(line)) != has_c
        || is_receiver && lines.len() > MOST
    {
        return Outcome::failure(format!("dependencies of {name} with '{features}':\n{list}"));
    }
    Outcome::single(true)
}
