//! Pins keep segments.

use std::ffi::OsStr;

use serde_json::Value;
use wirelane_testkit::process::Output;

use crate::store::{Store, extract, wirelane};

fn pin(store: &Store, more: &str) -> Output {
    wirelane([OsStr::new("pin"), store.path().as_os_str()], more)
}

#[test]
fn a_time_span_is_pinned_and_released() {
    let store = Store::new(None);
    let span = "--from 2026-11-23T02:41:52Z --to 2026-11-23T02:41:53Z";
    let out = pin(&store, span);
    assert_eq!(out.status.code(), Some(0), "{}", out.stderr);
    let pins = store.files(".pin").len();
    assert!(0 < pins && pins < store.files(".pcapng").len(), "{pins}");
    let segments =
        if pins == 1 { "pinned 1 segment: " } else { &format!("pinned {pins} segments: ") };
    assert!(out.stderr.starts_with(segments), "{}", out.stderr);
    let list = extract(&store, "--list").stdout;
    assert_eq!(list.lines().filter(|line| line.contains("pinned")).count(), pins, "{list}");
    // Pinning again is no error.
    assert_eq!(pin(&store, span).status.code(), Some(0));
    assert_eq!(store.files(".pin").len(), pins);

    let out = pin(&store, &format!("{span} --release --json"));
    let document: Value = serde_json::from_str(&out.stdout).unwrap();
    assert_eq!(document["schema"], "wirelane.pin/1");
    assert_eq!(document["released"], true);
    assert_eq!(document["segments"].as_array().unwrap().len(), pins);
    assert_eq!(store.files(".pin").len(), 0);
}

#[test]
fn an_expression_pins_less() {
    let store = Store::new(None);
    assert_eq!(pin(&store, "host 10.0.0.2 --all").status.code(), Some(0));
    let some = store.files(".pin").len();
    assert!(0 < some && some < store.files(".pcapng").len(), "{some}");
    assert_eq!(pin(&store, "--all").status.code(), Some(0));
    assert_eq!(store.files(".pin").len(), store.files(".pcapng").len());
    assert_eq!(pin(&store, "--all --release").status.code(), Some(0));
    assert_eq!(store.files(".pin").len(), 0);
}

#[test]
fn nothing_to_pin_is_told() {
    let store = Store::new(None);
    let out = pin(&store, "--from 2027-01-01T00:00:00Z");
    assert_eq!(out.status.code(), Some(1));
    assert!(out.stderr.contains("no segment has packets"), "{}", out.stderr);
    for arguments in ["", "--all --from -5m", "tcp prot 80 --all"] {
        assert_eq!(pin(&store, arguments).status.code(), Some(2), "{arguments}");
    }
    assert_eq!(store.files(".pin").len(), 0);
}
