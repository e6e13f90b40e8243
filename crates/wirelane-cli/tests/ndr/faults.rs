//! Loss, copies and reordering by a program in between are reported exactly.

use serde_json::Value;
use wirelane_testkit::privileged;

use super::middle::{Fault, Middle};
use super::ndr;

/// Of every thousand packets there, one is lost, two are copied, and one is three packets late;
/// back, four are lost.
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

/// Of every hundred packets there, the first stream loses one and the third has two copied; back,
/// the second has one late.
fn by_flow(from: usize, flow: u32, sequence: u32) -> Fault {
    match (from, flow, sequence % 100) {
        (0, 0, 7) => Fault::Lose,
        (0, 2, 13 | 14) => Fault::Copy,
        (1, 1, 50) => Fault::Delay(8),
        _ => Fault::None,
    }
}

const FLOWS: &str = r#"{
  "ports": [{"name": "p0", "location": "a0"}, {"name": "p1", "location": "a1"}],
  "flows": [FLOW]
}"#;

const FLOW: &str = r#"{
  "name": "NAME",
  "tx_rx": {"choice": "port", "port": {"tx_name": "TX", "rx_names": ["RX"]}},
  "packet": [
    {"choice": "ethernet", "ethernet": {
      "src": {"choice": "value", "value": "02:00:00:00:00:SRC"},
      "dst": {"choice": "value", "value": "02:00:00:00:00:DST"}}},
    {"choice": "ipv4", "ipv4": {
      "src": {"choice": "value", "value": "198.18.0.1"},
      "dst": {"choice": "value", "value": "198.18.0.2"}}},
    {"choice": "udp"}
  ],
  "size": {"choice": "fixed", "fixed": 128},
  "rate": {"choice": "pps", "pps": PPS},
  "metrics": {"enable": true}
}"#;

#[test]
fn privileged_faults_are_told_apart_by_flow() {
    if !privileged::require() {
        return;
    }
    let flow = |name: &str, way: usize, pps: &str| {
        let ends = [("p0", "0a"), ("p1", "0b")];
        let ((tx, src), (rx, dst)) = (ends[way], ends[1 - way]);
        let words = [("NAME", name), ("TX", tx), ("RX", rx), ("SRC", src), ("DST", dst)];
        let text = FLOW.replace("PPS", pps);
        words.iter().fold(text, |text, (word, by)| text.replace(word, by))
    };
    let flows = [
        flow("voice", 0, "100"),
        flow("video", 0, "200"),
        flow("files", 0, "100"),
        flow("voice back", 1, "300"),
        flow("files back", 1, "100"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.json");
    std::fs::write(&path, FLOWS.replace("FLOW", &flows.join(","))).unwrap();
    let middle = Middle::new();
    let forwarding = middle.forward(by_flow);
    let path = path.to_str().unwrap();
    let found = ndr(&middle.tester, &["--flows", path, "--rate", "4kpps", "--duration", "1s"]);
    forwarding.stop();
    forwarding.join().result().unwrap();
    let ways = &found["sizes"][0]["loads"][0]["directions"];
    let of = |way: usize| {
        let flows = ways[way]["flows"].as_array().unwrap().iter();
        flows.map(|flow| (flow["name"].as_str().unwrap(), counts(flow))).collect::<Vec<_>>()
    };
    let there = [
        ("voice", [1000, 990, 10, 0, 0, 0]),
        ("video", [2000, 2000, 0, 0, 0, 0]),
        ("files", [1000, 1000, 0, 20, 0, 0]),
    ];
    assert_eq!(of(0), there);
    // Every fourth packet belongs to that flow: two of the flow's packets overtake it, and only
    // these count.
    let back =
        [("voice back", [3000, 3000, 0, 0, 0, 0]), ("files back", [1000, 1000, 0, 0, 10, 2])];
    assert_eq!(of(1), back);
}

#[test]
fn privileged_a_perfect_path_is_perfect() {
    if !privileged::require() {
        return;
    }
    let middle = Middle::new();
    middle.bridge();
    // Other traffic during the test is no part of it.
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
