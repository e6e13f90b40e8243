//! `wirelane forward` as a user sees it: forwarded packets, their order, counters and refusals.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
mod shared;
#[path = "../shared/ssh.rs"]
mod ssh;

mod bad_input;
mod big_tcp;
mod bridge;
mod checksums;
mod control;
mod disciplines;
mod files;
mod gro;
mod gso;
mod iperf;
mod links;
mod losses;
mod merged;
mod partial;
mod sim;
mod super_frames;
mod wire;

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use wirelane::internal::sim::Stream;
use wirelane_testkit::kernel;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, output};

use self::shared::*;

/// Runs `wirelane forward`, which must succeed. Returns the summary.
#[track_caller]
fn forward(args: &[&str]) -> Value {
    forwarded(&summary(&output(wirelane(["forward", "-q", "--json"]).args(args))))
}

/// Whether this kernel makes `forward` refuse a port on a veth pair with this backend. The rest of
/// the test continues.
#[track_caller]
fn is_refused_for_tags(port: &str) -> bool {
    port.starts_with("xdp") && !kernel::require_tags()
}

/// Checks that every packet that a TX queue accepted is sent or counted.
#[track_caller]
fn forwarded(summary: &Value) -> Value {
    assert_eq!(summary["command"], "forward");
    let rows = summary["tx"].as_array().unwrap();
    let sum = |key: &str| rows.iter().map(|row| number(&row[key])).sum::<u64>();
    let totals = &summary["totals"];
    assert_eq!(number(&totals["sent"]), sum("packets"));
    assert_eq!(number(&totals["delivered"]), sum("packets") + sum("errors"), "{summary}");
    summary.clone()
}

/// A sum over the rows of a table that belong to one port.
#[track_caller]
fn of_port(summary: &Value, table: &str, port: u64, key: &str) -> u64 {
    let rows = summary[table].as_array().unwrap().iter();
    rows.filter(|row| row["port"] == port).map(|row| number(&row[key])).sum()
}

/// Each number occurs once, and in order within its flow.
#[track_caller]
fn assert_flows_in_order(numbers: &[u64], flows: u64) {
    let mut last: HashMap<u64, u64> = HashMap::new();
    for number in numbers {
        let before = last.insert(number % flows, *number);
        assert!(before < Some(*number), "packet {number} after {before:?}");
    }
}

/// The numbers of the packets in a file; all of them must be intact.
#[track_caller]
fn numbers(stream: &Stream, file: &Path) -> Vec<u64> {
    let packets = packets(file);
    packets.iter().map(|packet| stream.number(&packet.data).expect("an intact packet")).collect()
}

/// The stream of packets of a simulated port.
fn stream(spec: &str) -> Stream {
    Stream::new(&spec.parse().unwrap()).unwrap()
}

/// `wirelane forward` running in a namespace; killed when dropped.
struct Running(ChildGuard);

impl Running {
    /// Starts it, and waits until it forwards.
    #[track_caller]
    fn start(ns: &Namespace, args: &[&str]) -> Self {
        let mut command = ns.command(WIRELANE);
        let mut child = ChildGuard::spawn(command.args(["forward", "--json"]).args(args));
        child.wait_until(PATIENCE, |child| child.stderr().contains("queues"));
        Self(child)
    }

    /// Ends it as ^C does. Returns its summary and its standard error.
    #[track_caller]
    fn finish(self) -> (Value, String) {
        self.0.interrupt();
        let ended = self.0.wait(PATIENCE);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let summary = parse(&ended.stdout);
        assert_eq!(summary["errors"], serde_json::json!([]));
        (forwarded(&summary), ended.stderr)
    }
}
