//! Through queueing disciplines: the same packets arrive, in order, or are counted.

use tempfile::tempdir;

use super::*;

const ALL: [&str; 10] = [
    "noqueue",
    "noqueue:1",
    "fifo",
    "bulk",
    "bulk:8,limit=500",
    "bulk,enqueue=batch",
    "pfifo_fast",
    "lockless",
    "lockless:nobypass",
    "fifo,bql=on,limit=256k",
];

/// A sum over all disciplines.
#[track_caller]
fn of_all(summary: &Value, path: &str) -> u64 {
    let rows = summary["qdiscs"].as_array().unwrap().iter();
    rows.map(|row| number(row.pointer(path).unwrap())).sum()
}

#[test]
fn everything_arrives() {
    for qdisc in ALL {
        for choice in ["explicit", "flow", "cpu"] {
            let ports = ["sim:3?count=30k", "sim:2?verify=on&count=10k"];
            let options = ["--qdisc", qdisc, "--tx-choice", choice];
            let summary = forward(&[&ports[..], &options].concat());
            assert_eq!(summary["totals"]["sent"], 40_000, "{qdisc} {choice}");
            assert_eq!(of_all(&summary, "/enqueued") + of_all(&summary, "/bypassed"), 40_000);
            assert_eq!(of_all(&summary, "/backlog_packets"), 0);
            assert_eq!(summary["qdiscs"].as_array().unwrap().len(), 5);
        }
    }
}

/// Several threads send through one queue: each flow belongs to one thread.
#[test]
fn flows_stay_in_order() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("x.pcapng");
    let spec = "sim:4?count=20k&flows=50";
    for qdisc in ALL {
        let sink = format!("file:{}", file.display());
        let summary = forward(&[spec, &sink, "--qdisc", qdisc]);
        assert_eq!(summary["totals"]["sent"], 20_000, "{qdisc}");
        let numbers = numbers(&stream(spec), &file);
        assert_eq!(numbers.len(), 20_000);
        assert_flows_in_order(&numbers, 50);
    }
}

#[test]
fn what_a_limit_drops_is_counted() {
    for qdisc in ["bulk:64,limit=8", "lockless:nobypass,limit=8", "bulk,limit=512B"] {
        let options = ["--one-way", "--qdisc", qdisc];
        let summary = forward(&[&["sim:2?count=50k", "sim:1"][..], &options].concat());
        assert_eq!(summary["totals"]["received"], 50_000);
        let lost = dropped(&summary, "tx_full");
        let limits = ["/dropped/limit_packets", "/dropped/limit_bytes"];
        assert_eq!(
            lost,
            limits.map(|limit| of_all(&summary, limit)).iter().sum::<u64>(),
            "{qdisc}"
        );
        assert!(lost > 0, "{qdisc}: {summary}");
        assert_eq!(number(&summary["totals"]["sent"]), 50_000 - lost);
    }
}

#[test]
fn what_is_no_discipline_is_refused() {
    for (options, parts) in [
        (&["--qdisc", "fq"][..], &["--qdisc", "no discipline 'fq'"][..]),
        (&["--qdisc", "noqueue,limit=1"], &["noqueue has no queue to limit"]),
        (&["--qdisc", "fifo", "--tx-choice", "x"], &["--tx-choice", "explicit, flow or cpu"]),
        (&["--tx-choice", "flow"], &["--qdisc"]),
    ] {
        refused(&[&["forward", "sim:1?count=1", "sim:1"][..], options].concat(), 2, parts);
    }
}
