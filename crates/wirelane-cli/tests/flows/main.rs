//! `wirelane flows`, compared with an oracle that reads tshark's fields of each packet.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "other commands need more")]
mod shared;

mod bad_input;
mod export;
mod generated;
mod live;
mod oracle;
mod queues;
mod real;

use std::path::{Path, PathBuf};
use std::process::Command;

use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, copy_program, run};

use self::shared::{PATIENCE, WIRELANE};

/// Starts `wirelane ARGS` in a namespace, and waits until it prints `ready` on standard error.
#[track_caller]
fn start(ns: &Namespace, args: &[&str], ready: &str) -> ChildGuard {
    let mut child = ChildGuard::spawn(ns.command(WIRELANE).args(args));
    child.wait_until(PATIENCE, |child| child.stderr().contains(ready));
    child
}

/// A copy of `wirelane` in the directory, and beside it this script in place of `wirelane-query`,
/// which may not be built.
#[track_caller]
fn with_companion(directory: &Path, script: &str) -> PathBuf {
    let [program, text, companion] =
        ["wirelane", "script", "wirelane-query"].map(|name| directory.join(name));
    copy_program(Path::new(WIRELANE), &program);
    std::fs::write(&text, script).unwrap();
    // A separate process writes the program, as in `copy_program`.
    run(Command::new("install").args(["-m", "755"]).args([&text, &companion]));
    program
}
