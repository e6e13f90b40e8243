//! `wirelane ndr` as a user sees it: injected faults are reported exactly, and a bottleneck's rate
//! is found.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "other commands need more of it")]
mod shared;

mod bad_input;
mod bottleneck;
mod faults;
mod middle;
mod page;

use serde_json::Value;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::output;

use self::shared::WIRELANE;

/// Runs `wirelane ndr a0 a1 ARGS`, which must succeed. Returns the JSON object.
#[track_caller]
fn ndr(ns: &Namespace, args: &[&str]) -> Value {
    let ports = ["ndr", "a0", "a1", "-q", "--json"];
    let ended = output(ns.command(WIRELANE).args(ports).args(args));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(ended.stderr, "", "-q says nothing");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(document["schema"], "wirelane.ndr/1");
    document
}
