//! `wirelane verify` as a user sees it: the violations that it finds in a file, prints and counts.
//! The kernel's own packets must be correct.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "other commands need more")]
mod shared;

#[path = "../shared/peer.rs"]
#[allow(dead_code, reason = "other tests need more")]
mod peer;

mod files;
mod kernel;

use std::path::Path;

use serde_json::Value;
use wirelane_testkit::process::{Output, output};
use wirelane_testkit::tshark::wrong_checksums;

use self::shared::*;

#[track_caller]
fn verify(file: &Path, options: &[&str]) -> Output {
    output(wirelane(["verify"]).args(options).arg(file))
}

/// The JSON object, and whether the exit status says that there is no violation.
#[track_caller]
fn audit(file: &Path, options: &[&str]) -> (Value, bool) {
    let ended = verify(file, &[&["--json"], options].concat());
    let status = ended.status.code();
    let document: Value = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", ended.stdout, ended.stderr));
    assert_eq!(document["schema"], "wirelane.verify/1");
    let clean = number(&document["violations"]) == 0;
    assert_eq!(status, Some(i32::from(!clean)), "{}", ended.stderr);
    (document, clean)
}

/// A counter of one rule.
fn rule(document: &Value, name: &str, key: &str) -> u64 {
    let rules = document["rules"].as_array().unwrap();
    number(&rules.iter().find(|rule| rule["rule"] == name).unwrap()[key])
}

/// Numbers of the packets that break rules with this suffix.
fn broken(document: &Value, end: &str) -> Vec<u64> {
    let findings = document["findings"].as_array().unwrap().iter();
    let of_rule =
        |it: &&Value| it["rule"].as_str().unwrap().ends_with(end) && it["kind"] == "violation";
    let mut numbers: Vec<_> = findings.filter(of_rule).map(|it| number(&it["packet"])).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}
