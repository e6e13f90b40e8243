//! Effects of a crash, a full disk and damage on a store, through the commands, as a user sees
//! them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "other commands need more")]
mod shared;

mod files;
mod full_disk;
mod kills;
mod two;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::tempdir;
use wirelane::internal::sim::Stream;
use wirelane_testkit::process::{ChildGuard, Output, output};

use self::shared::*;

/// A recorder that is running; killed when dropped.
struct Recorder {
    child: ChildGuard,
}

impl Recorder {
    /// Starts `wirelane record` and waits until it receives packets.
    #[track_caller]
    fn start(spec: &str, store: &Path, options: &[&str]) -> Self {
        let mut command = wirelane(["record", spec]);
        let mut child = ChildGuard::spawn(command.arg(store).args(options));
        child.wait_until(PATIENCE, |child| child.stderr().contains("recording "));
        Self { child }
    }

    /// Its statistics, if it answers.
    fn stats(&self) -> Value {
        let answer = output(&mut wirelane(["stats", "--json", &self.child.id().to_string()]));
        serde_json::from_str(&answer.stdout).unwrap_or(Value::Null)
    }

    /// Kills it. The kernel may still write after that.
    fn kill(self) {
        self.child.signal(Signal::KILL);
        self.child.wait(PATIENCE);
    }

    /// Ends it cleanly.
    fn end(self) -> Output {
        self.child.interrupt();
        self.child.wait(PATIENCE)
    }
}

/// Waits until the kernel has finished what a killed recorder was writing.
#[track_caller]
fn settle(store: &Path) {
    File::open(store.join("recorder.lock")).unwrap().lock_shared().unwrap();
}

/// The packets of a store in order of time. `extract` must exit with `status`.
#[track_caller]
fn extract(store: &Path, status: i32) -> (Vec<Packet>, String) {
    let directory = tempdir().unwrap();
    let file = directory.path().join("all.pcapng");
    let ended = output(wirelane(["extract", "-q", "-w"]).arg(&file).arg(store));
    assert_eq!(ended.status.code(), Some(status), "{}", ended.stderr);
    (packets(&file), ended.stderr)
}

/// Runs `record --check`, which must exit with `status`. Returns its report.
#[track_caller]
fn check(store: &Path, status: i32) -> Value {
    let ended = output(wirelane(["record", "--json", "-q", "--check"]).arg(store));
    assert_eq!(ended.status.code(), Some(status), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(report["schema"], "wirelane.check/1");
    report["stores"][0].clone()
}

/// The packets are from the stream, and each queue has its first packets without a gap.
#[track_caller]
fn assert_first_ones(spec: &str, found: &[Packet]) {
    let numbers = numbers(spec, found);
    let last = numbers.values().flatten().max().map_or(0, |last| last + 1);
    let stream = stream(spec);
    let mut expected = BTreeMap::<u32, Vec<u64>>::new();
    for number in 0..last {
        expected.entry(stream.packet(number).queue.into()).or_default().push(number);
    }
    for (queue, numbers) in numbers {
        assert_eq!(numbers, expected[&queue][..numbers.len()], "queue {queue}");
    }
}

/// Numbers in the stream of each queue's packets, which must be intact and in order.
#[track_caller]
fn numbers(spec: &str, found: &[Packet]) -> BTreeMap<u32, Vec<u64>> {
    let stream = stream(spec);
    let mut numbers = BTreeMap::<u32, Vec<u64>>::new();
    for packet in found {
        let number = stream.number(&packet.data).expect("a packet of the stream");
        assert_eq!(stream.packet(number).bytes, packet.data, "packet {number}");
        numbers.entry(packet.queue.unwrap()).or_default().push(number);
    }
    numbers
}

fn stream(spec: &str) -> Stream {
    Stream::new(&spec.parse().unwrap()).unwrap()
}

/// The segments of a store, sorted by name.
fn segments(store: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.contains(".pcapng") && !name.contains(".index")
    };
    let mut segments: Vec<_> = entries.filter(is_segment).collect();
    segments.sort();
    segments
}

fn index_of(segment: &Path) -> PathBuf {
    PathBuf::from(format!("{}.index", segment.display()))
}
