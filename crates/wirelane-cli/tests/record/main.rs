//! `wirelane record` and `wirelane trigger` as a user sees them, and the content of the store.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
mod shared;

mod bad_input;
mod links;
mod operations;
mod sim;
mod traffic;
mod triggers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wirelane::pcap::CaptureReader;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, output};

use self::shared::*;

/// Runs `wirelane record`, which must succeed. Returns the summary.
#[track_caller]
fn record(args: &[&str]) -> Value {
    summary(&output(wirelane(["record", "-q", "--json"]).args(args)))
}

/// The finished segments of a store, in the order of recording.
#[track_caller]
fn segments(store: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        [".pcapng", ".pcapng.lz4", ".pcapng.zst"].iter().any(|end| name.ends_with(end))
    };
    let number = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let (_, number) = name.split('.').nth(2).unwrap().rsplit_once('_').unwrap();
        number.parse::<u64>().unwrap()
    };
    let mut found: Vec<_> = names.filter(is_segment).collect();
    found.sort_by_key(number);
    found
}

/// All packets of a store, segment by segment.
#[track_caller]
fn stored(store: &Path) -> Vec<Packet> {
    segments(store).iter().flat_map(packets).collect()
}

/// The last counters of each queue and class in the store equal the summary's.
#[track_caller]
fn assert_counters(summary: &Value, store: &Path) {
    let mut last = std::collections::BTreeMap::new();
    for segment in segments(store) {
        let mut reader = CaptureReader::open(&segment).unwrap();
        while reader.advance().unwrap() {}
        for entry in reader.statistics() {
            let source = &reader.interfaces()[entry.interface as usize];
            let class = source.class.unwrap().as_str();
            last.insert((class, source.queue), entry);
        }
    }
    for queue in summary["queues"].as_array().unwrap() {
        if queue["received"] == 0 {
            continue;
        }
        let number = queue["queue"].as_u64().map(|number| number as u32);
        let entry = &last[&(queue["class"].as_str().unwrap(), number)];
        assert_eq!(entry.received, queue["received"].as_u64(), "{queue}");
        assert_eq!(entry.delivered, queue["packets"].as_u64(), "{queue}");
        assert!(entry.start.is_some() && entry.start <= entry.end, "{entry:?}");
    }
}

/// A recording that is running; killed when dropped.
struct Running {
    child: ChildGuard,
}

impl Running {
    /// Starts `wirelane record -q --json` and waits until it receives packets.
    #[track_caller]
    fn start(ns: Option<&Namespace>, args: &[&str]) -> Self {
        let command = ns.map_or_else(|| Command::new(WIRELANE), |ns| ns.command(WIRELANE));
        Self::spawn(command, args)
    }

    /// As [`Running::start`], with a command that already has arguments.
    #[track_caller]
    fn spawn(mut command: Command, args: &[&str]) -> Self {
        let child = ChildGuard::spawn(command.args(["record", "-q", "--json"]).args(args));
        let mut running = Self { child };
        running.wait_until(|_| true);
        running
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// Waits until `holds` accepts the output of `wirelane stats`.
    #[track_caller]
    fn wait_until(&mut self, holds: impl Fn(&Value) -> bool) {
        let pid = self.pid();
        self.child.wait_until(PATIENCE, |_| {
            let said = output(&mut wirelane(["stats", "--json", &pid]));
            said.status.success() && holds(&serde_json::from_str(&said.stdout).unwrap())
        });
    }

    /// Waits until this many packets were delivered.
    #[track_caller]
    fn wait_for(&mut self, packets: u64) {
        self.wait_until(|stats| number(&stats["totals"]["delivered"]) >= packets);
    }

    /// Ends it as ^C does. Returns its summary.
    #[track_caller]
    fn finish(self) -> Value {
        self.child.interrupt();
        summary(&self.child.wait(PATIENCE))
    }
}
