//! The step `portable`: the crates that use no operating system build for WebAssembly, which has
//! none.

use crate::cargo;
use crate::context::Context;
use crate::step::Outcome;
use crate::targets;

const TARGET: &str = "wasm32-wasip1";
/// The crates, built without default features: compression needs a C compiler for the target.
const CRATES: [&str; 6] = [
    "wirelane-wire",
    "wirelane-pcap",
    "wirelane-filter",
    "wirelane-print",
    "wirelane-verify",
    "wirelane-gen",
];

pub(crate) const ABOUT: &str = "crates without a system, built for WebAssembly";

pub(crate) fn run(context: &Context) -> Outcome {
    if let Some(outcome) = targets::without(TARGET) {
        return outcome;
    }
    let mut arguments = vec!["check", "--target", TARGET, "--lib", "--no-default-features"];
    arguments.extend(CRATES.iter().flat_map(|name| ["-p", name]));
    let mut command = cargo::stable(&arguments);
    let succeeds = cargo::succeeds(command.env("CARGO_TARGET_DIR", context.target("portable")));
    Outcome::single(succeeds)
}
