//! The `wirelane` command as a user sees it: what it captures, writes, counts and prints.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
mod shared;

#[path = "../shared/running.rs"]
mod running;

mod any;
mod background;
mod bad_input;
mod boards;
mod companions;
mod config;
mod control;
mod count;
mod errors;
mod exec;
mod file;
mod filter;
mod foreign;
mod full_disk;
mod habits;
mod host;
mod hostile_text;
mod json;
mod late;
mod limit;
mod links;
mod live;
mod masks;
mod memory;
mod mixed;
mod namespaces;
mod notes;
mod permissions;
mod places;
mod ports;
mod print;
mod privileges;
mod real_traffic;
mod rotation;
mod service;
mod signals;
mod sim;
mod surroundings;
mod terminal;
mod texts;
mod units;
mod users;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use wirelane::Class;
use wirelane::internal::sim::Stream;
use wirelane::pcap::{CaptureError, CaptureReader};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::{ChildGuard, Output, output};

use self::running::Running;
use self::shared::*;

/// Runs `wirelane capture`, which must succeed. Returns the summary.
#[track_caller]
fn capture(args: &[&str]) -> Value {
    summary(&output(wirelane(["capture", "-q", "--json"]).args(args)))
}

/// The last statistics of each interface in the file equal its queue in the summary.
#[track_caller]
fn assert_counters(summary: &Value, file: &Path) {
    let mut reader = CaptureReader::open(file).unwrap();
    while reader.advance().unwrap() {}
    let queues = summary["queues"].as_array().unwrap();
    let (statistics, sources) = (reader.statistics(), reader.interfaces());
    assert_eq!((statistics.len(), sources.len()), (queues.len(), queues.len()));
    for (queue, entry) in queues.iter().zip(statistics) {
        let source = &sources[entry.interface as usize];
        assert_eq!(source.class.unwrap().as_str(), queue["class"]);
        assert_eq!(source.queue.map(u64::from), queue["queue"].as_u64());
        assert_eq!(entry.received, queue["received"].as_u64(), "{queue}");
        assert_eq!(entry.delivered, queue["packets"].as_u64(), "{queue}");
        assert_eq!(entry.os_dropped, queue["dropped"]["kernel"].as_u64(), "{queue}");
        assert!(entry.start.is_some() && entry.start <= entry.end, "{entry:?}");
    }
}

/// The numbers of simulated packets in the order given. Each must be what the stream predicts for
/// its number, through the queue predicted.
#[track_caller]
fn predicted_numbers(stream: &Stream, packets: &[Packet]) -> Vec<u64> {
    let number = |packet: &Packet| {
        let number = stream.number(&packet.data).expect("an intact packet");
        let predicted = stream.packet(number);
        assert_eq!(predicted.bytes, packet.data, "packet {number}");
        let queue = (predicted.class != Class::Other).then_some(u32::from(predicted.queue));
        assert_eq!((packet.class, packet.queue), (Some(predicted.class), queue), "{number}");
        number
    };
    packets.iter().map(number).collect()
}

/// The stream of packets of a simulated port.
fn stream(spec: &str) -> Stream {
    Stream::new(&spec.parse().unwrap()).unwrap()
}

/// The control sockets of a process.
fn sockets_of(pid: u32) -> Vec<PathBuf> {
    let name = format!("wirelane-{pid}-");
    let entries = ["/run", "/tmp"].into_iter().filter_map(|place| fs::read_dir(place).ok());
    let names = entries.flatten().flatten();
    names
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&name))
        .map(|entry| entry.path())
        .collect()
}

fn is_in_order(packets: &[Packet]) -> bool {
    packets.windows(2).all(|pair| pair[0].timestamp <= pair[1].timestamp)
}
