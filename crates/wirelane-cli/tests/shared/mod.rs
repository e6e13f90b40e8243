//! Shared by the tests of all commands: running them, and reading their summaries.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::tempdir;
use wirelane::Class;
use wirelane::pcap::{CaptureError, CaptureReader};
use wirelane_testkit::process::{Output, output};

pub(crate) const WIRELANE: &str = env!("CARGO_BIN_EXE_wirelane");

/// The longest time that anything may take on a busy machine before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Options of a packet port for many small and quick captures. At any rate, the blocks last for six
/// seconds in which a thread gets no CPU.
#[allow(dead_code, reason = "not every command's tests have a packet port")]
pub(crate) const QUICK: &str = "?ring=2Mi&block=16Ki&retire=50ms";

pub(crate) fn wirelane<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(WIRELANE);
    command.args(args);
    command
}

/// The summary of a successful command, after checking that its counters balance.
#[track_caller]
pub(crate) fn summary(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", output.stderr);
    assert_eq!(output.stderr, "", "-q says nothing");
    let summary = parse(&output.stdout);
    assert_eq!(summary["errors"], serde_json::json!([]));
    summary
}

/// Exactly one JSON object on one line, whose counters balance.
#[track_caller]
pub(crate) fn parse(text: &str) -> Value {
    assert_eq!(text.matches('\n').count(), 1, "one line: {text:?}");
    let summary = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_balanced(&summary);
    summary
}

/// received = filtered + delivered + dropped, for every queue and in total; no frame is missing.
#[track_caller]
pub(crate) fn assert_balanced(summary: &Value) {
    let mut sums = [0; 4];
    for queue in summary["queues"].as_array().unwrap() {
        let dropped = queue["dropped"].as_object().unwrap().values().map(number).sum();
        let parts = [number(&queue["filtered"]), number(&queue["packets"]), dropped];
        assert_eq!(number(&queue["received"]), parts.iter().sum::<u64>(), "{queue}");
        for (sum, part) in sums.iter_mut().zip([&[number(&queue["received"])], &parts[..]].concat())
        {
            *sum += part;
        }
    }
    let totals = &summary["totals"];
    let keys = ["received", "filtered", "delivered", "dropped"];
    assert_eq!(keys.map(|key| number(&totals[key])), sums, "{totals}");
    assert_eq!(summary["frames"]["leaked"], 0, "{summary}");
}

#[track_caller]
pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no counter"))
}

/// Packets dropped for `reason`, over all queues.
pub(crate) fn dropped(summary: &Value, reason: &str) -> u64 {
    let queues = summary["queues"].as_array().unwrap();
    queues.iter().map(|queue| number(&queue["dropped"][reason])).sum()
}

/// One packet of a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) class: Option<Class>,
    pub(crate) queue: Option<u32>,
    pub(crate) timestamp: u64,
    pub(crate) original_len: u32,
    pub(crate) data: Vec<u8>,
}

/// All packets of a capture file, which must be whole.
#[track_caller]
pub(crate) fn packets(path: impl AsRef<Path>) -> Vec<Packet> {
    let (packets, damage) = readable(path);
    assert!(damage.is_none(), "{}", damage.unwrap());
    packets
}

/// All packets of a capture file up to its end or to the damage.
#[track_caller]
pub(crate) fn readable(path: impl AsRef<Path>) -> (Vec<Packet>, Option<CaptureError>) {
    let mut reader = CaptureReader::open(path).unwrap_or_else(|error| panic!("{error}"));
    let mut packets = Vec::new();
    loop {
        match reader.advance() {
            Ok(true) => {}
            Ok(false) => return (packets, None),
            Err(damage) => return (packets, Some(damage)),
        }
        let record = reader.current();
        let source = &reader.interfaces()[record.interface as usize];
        packets.push(Packet {
            class: source.class,
            queue: source.queue,
            timestamp: record.timestamp,
            original_len: record.original_len,
            data: record.data.to_vec(),
        });
    }
}

/// One line `wirelane: object: cause`, mostly with `; next step`, and this status.
#[track_caller]
pub(crate) fn assert_refused(ended: &Output, status: i32, parts: &[&str]) {
    assert_eq!(ended.status.code(), Some(status), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.starts_with("wirelane: "), "{}", ended.stderr);
    assert!(ended.stderr.matches(": ").count() >= 2, "{}", ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    for part in parts {
        assert!(ended.stderr.contains(part), "{part:?} is not in {}", ended.stderr);
    }
}

/// Runs `wirelane ARGS` in an empty directory, which must stay empty.
#[track_caller]
pub(crate) fn refused(args: &[&str], status: i32, parts: &[&str]) {
    let directory = tempdir().unwrap();
    let ended = output(wirelane(args).current_dir(&directory));
    assert_refused(&ended, status, parts);
    assert_eq!(ended.stdout, "", "{args:?}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "{args:?} left something");
}
