//! Notes the commit that the program is built from, for the reports of its benchmarks.
#![allow(clippy::print_stdout, reason = "the way to talk to cargo")]

use std::path::Path;
use std::process::Command;

fn main() {
    // The commit is unknown without git, in an archive, and in another project's repository.
    if git(&["ls-files", "build.rs"]).is_none() {
        return;
    }
    let Some(revision) = git(&["rev-parse", "HEAD"]) else { return };
    // The log grows with every commit and every checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
        println!("cargo::rerun-if-changed=..");
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", ".."]);
    let mark = if changed.is_some() { ", with changes" } else { "" };
    println!("cargo::rustc-env=WIRELANE_REVISION={revision}{mark}");
}

/// The output of git. `None` if git fails or prints nothing.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}
