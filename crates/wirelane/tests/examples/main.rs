//! Runs the compiled examples, on files, simulated ports, and interfaces in namespaces.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod capturing;
mod forwarding;
mod sending;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use wirelane_testkit::process::{ChildGuard, Output, output};

const PATIENCE: Duration = Duration::from_secs(30);

/// The programs that the documentation lists.
const EXAMPLES: [&str; 15] = [
    "bridge",
    "custom_source",
    "dns_log",
    "generator",
    "live_flows",
    "manual_masks",
    "nat",
    "policer",
    "rate_meter",
    "recorder",
    "responder",
    "several_ports",
    "syn_comments",
    "tap",
    "xdp_echo",
];

/// The compiled program of an example. Cargo builds the examples with all tests of a package.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(program.is_file(), "{}: cargo build -p wirelane --examples", program.display());
    program
}

/// The standard output of an example that ends by itself.
#[track_caller]
fn printed(name: &str, args: &[&str]) -> String {
    let ended = output(Command::new(example(name)).args(args));
    assert!(ended.status.success(), "{}", ended.stderr);
    ended.stdout
}

/// The output of an example that ^C ends.
#[track_caller]
fn interrupted(program: ChildGuard) -> Output {
    program.interrupt();
    let ended = program.wait(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    ended
}

/// A person reads an example in a minute, and all of them in a quarter of an hour.
#[test]
fn examples_are_short_and_listed() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = |path: &str| std::fs::read_to_string(package.join(path)).unwrap();
    let (chapter, crate_docs) = (list("../../docs/library.md"), list("src/lib.rs"));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(package.join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let (name, text) = (path.file_stem().unwrap(), std::fs::read_to_string(&path).unwrap());
        let name = name.to_str().unwrap().to_owned();
        assert!(text.lines().count() <= 60, "{name} has {} lines", text.lines().count());
        assert!(!text.contains("wirelane::internal"), "{name} uses a private item");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{name} has long lines");
        for document in [&chapter, &crate_docs] {
            assert!(document.contains(&format!("`{name}`")), "no document lists {name}");
        }
        found.push(name);
    }
    found.sort_unstable();
    assert_eq!(found, EXAMPLES);
}
