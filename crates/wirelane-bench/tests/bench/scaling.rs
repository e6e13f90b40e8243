//! `wirelane bench scaling`.

use serde_json::Value;
use wirelane_os::affinity;
use wirelane_testkit::{privileged, tools};

use super::bench;

#[test]
fn capturing_with_one_and_two_queues_stands_beside_dd() {
    let disk = tempfile::tempdir().unwrap();
    let args = ["scaling", "--quick", "--samples", "1", "--case", "capture", "--json", "--disk"];
    let ended = bench(&[&args[..], &[disk.path().to_str().unwrap()]].concat());
    assert!(ended.status.success(), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let of = |peer: Option<&str>, target: &str, metric: &str| {
        let is_wanted = |row: &&Value| {
            row["peer"].as_str() == peer
                && row["params"]["target"] == target
                && row["metric"] == metric
                && row["case"] == "capture"
        };
        let figures = rows.iter().filter(is_wanted).map(|row| row["median"].as_f64().unwrap());
        figures.inspect(|figure| assert!(*figure > 0.0)).count()
    };
    let skipped = report["skipped"].as_array().unwrap();
    let has_dd = tools::require("dd");
    for target in ["none", "memory", "disk"] {
        // Two sizes, each with one queue and with two.
        assert_eq!(of(None, target, "packets_per_s"), 4, "{target}: {skipped:?}");
        assert_eq!(of(None, target, "efficiency"), 2);
        let is_written = target != "none" && has_dd;
        assert_eq!(of(Some("dd"), target, "bits_per_s"), if is_written { 4 } else { 0 });
        assert_eq!(of(Some("dd"), target, "efficiency"), if is_written { 2 } else { 0 });
    }
    let promises = report["promises"].as_array().unwrap();
    let measured = promises.iter().filter(|promise| promise["median"].is_f64());
    assert_eq!(measured.clone().count(), 4, "reading and writing to memory, of two sizes");
    for promise in measured {
        // One sample of a quick run is not enough for a verdict.
        assert!(promise["met"].is_null(), "{promise}");
        assert_eq!(promise["reason"], "one sample cannot tell");
    }
    assert_eq!(std::fs::read_dir(disk.path()).unwrap().count(), 0);
}

#[test]
fn privileged_sockets_receive_by_one_queue_and_by_all() {
    if !privileged::require() {
        return;
    }
    let ended = bench(&["scaling", "--quick", "--samples", "1", "--case", "rx", "--json"]);
    assert!(ended.status.success(), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let cpus = affinity::allowed_cpus().unwrap().len();
    for (port, mode) in [("sim", "sim"), ("packet", "tpacket-v3"), ("xdp", "native")] {
        let is_rate = |row: &&Value| {
            let params = &row["params"];
            (row["case"] == "rx" && row["metric"] == "packets_per_s")
                && (params["port"] == port && params["mode"] == mode)
        };
        let rates: Vec<_> = rows.iter().filter(is_rate).collect();
        let queues: Vec<_> = rates.iter().map(|row| row["params"]["queues"].as_u64()).collect();
        assert_eq!(queues[..2.min(cpus)], [Some(1), Some(2)][..2.min(cpus)], "{port}: {report}");
        for row in rates {
            assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
}
