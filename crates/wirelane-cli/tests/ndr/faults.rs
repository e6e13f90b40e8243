//! Loss, copies and reordering that a program in between injects are reported exactly.

use serde_json::Value;
use wirelane_testkit::privileged;

use super::middle::{Fault, Middle};
use super::ndr;

/// Of every thousand packets: there one is lost, two are copied and one comes three late; back four
/// are lost.
fn injected(from: usize, _: u32, sequence: u32) -> Fault {
    match (from, sequence % 1000) {
        (0, 7) => Fault::Lose,
        (0, 13 | 14) => Fault::Copy,
        (0, 50) => Fault::Delay(3),
        (1, 100..104) => Fault::Lose,
        _ => Fault::None,
    }
}

fn counts(of: &Value) -> [u64; 6] {
    ["sent", "received", "lost", "duplicated", "reordered", "reordering_extent"]
        .map(|key| of[key].as_u64().unwrap())
}

#[test]
fn privileged_what_is_injected_is_reported_exactly() {
    if !privileged::require() {
        return;
    }
    let middle = Middle::new();
    let forwarding = middle.forward(injected);
    let found = ndr(&middle.tester, &["--rate", "5kpps", "--duration", "2s"]);
    forwarding.stop();
    forwarding.join().result().unwrap();
    let trial = &found["sizes"][0]["loads"][0];
    let [there, back] = [0, 1].map(|way| &trial["directions"][way]);
    assert_eq!((&there["name"], &back["name"]), (&"a0 → a1".into(), &"a1 → a0".into()));
    for of in [there, &there["flows"][0]] {
        assert_eq!(counts(of), [10_000, 9_990, 10, 20, 10, 3], "{there}");
    }
    for of in [back, &back["flows"][0]] {
        assert_eq!(counts(of), [10_000, 9_960, 40, 0, 0, 0], "{back}");
    }
    assert_eq!((&there["loss_ratio"], &there["receiver_dropped"]), (&0.001.into(), &0.into()));
    let latency = &there["latency"];
    assert_eq!(latency["packets"], 9_990);
    let times = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
    let times = times.map(|key| latency[key].as_u64().unwrap());
    assert!(times[0] > 0 && times.is_sorted(), "{latency}");
}

#[test]
fn privileged_a_perfect_path_is_perfect() {
    if !privileged::require() {
        return;
    }
    let middle = Middle::new();
    middle.bridge();
    // Something else is received meanwhile, which is no part of it.
    let neighbour = middle.inside.spawn("ping", ["-q", "-i", "0.2", "-I", "br0", "198.18.0.77"]);
    let found = ndr(
        &middle.tester,
        &["--rate", "5kpps", "--duration", "1s", "--sizes", "64,1518", "--one-way"],
    );
    drop(neighbour);
    for (position, (frame, length)) in [(64, 60), (1518, 1514)].into_iter().enumerate() {
        let size = &found["sizes"][position];
        assert_eq!((&size["frame"], &size["length"]), (&frame.into(), &length.into()));
        let ways = size["loads"][0]["directions"].as_array().unwrap();
        assert_eq!(ways.len(), 1);
        assert_eq!(counts(&ways[0]), [5_000, 5_000, 0, 0, 0, 0], "{}", ways[0]);
    }
}
