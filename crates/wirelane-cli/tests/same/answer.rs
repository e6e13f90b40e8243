//! Answers of commands, as lines that can be compared.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::shared;
use crate::traffic::Packet;

/// Reads the answer: what the last command line printed, and the directory in which it ran.
pub(crate) type Answer = fn(&str, &Path) -> Vec<Line>;

/// A part of an answer: a packet, a printed line, a row, a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// The interface and queue, which not every path records.
    pub(crate) place: String,
    /// The time, which differs between a live packet and a file.
    pub(crate) time: String,
}

/// Packets of all capture files in the order of their names.
pub(crate) fn packets(_: &str, directory: &Path) -> Vec<Line> {
    files(directory).iter().flat_map(shared::packets).map(|packet| line(&packet)).collect()
}

/// The same in order of time.
pub(crate) fn packets_by_time(text: &str, directory: &Path) -> Vec<Line> {
    let mut lines = packets(text, directory);
    lines.sort_by(|a, b| a.time.cmp(&b.time));
    lines
}

pub(crate) fn without_queues(text: &str, directory: &Path) -> Vec<Line> {
    let lines = packets(text, directory);
    lines.into_iter().map(|line| Line { place: String::new(), ..line }).collect()
}

pub(crate) fn bytes(text: &str, directory: &Path) -> Vec<Line> {
    let lines = packets(text, directory);
    lines.into_iter().map(|line| Line { text: line.text, ..Line::default() }).collect()
}

/// `TIME INTERFACE QUEUE PROTOCOL …`, where files of pcap have no interface.
pub(crate) fn lines(text: &str, _: &Path) -> Vec<Line> {
    let line = |line: &str| {
        let (time, rest) = line.split_once(' ').unwrap_or_default();
        let mut words = rest.split(' ');
        let place: Vec<_> = words.by_ref().take_while(|word| !is_protocol(word)).collect();
        let text = rest[place.join(" ").len()..].trim_start();
        Line { text: text.into(), place: place.join(" "), time: time.into() }
    };
    text.lines().map(line).collect()
}

/// Names of interfaces and queues are in lower case here.
fn is_protocol(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase()) || word.contains([':', ','])
}

/// The rows of all tables, and the totals.
pub(crate) fn counts(text: &str, _: &Path) -> Vec<Line> {
    let summary: Value = serde_json::from_str(text).unwrap_or_default();
    let mut lines = Vec::new();
    for table in summary["tables"].as_array().into_iter().flatten() {
        for row in table["rows"].as_array().into_iter().flatten() {
            let places: &[&str] = if table["by"] == "queue" { &["key"] } else { &[] };
            lines.push(separated(row, &["first_ns", "last_ns"], places));
        }
        lines.push(separated(&table["total"], &[], &[]));
    }
    lines.sort();
    lines
}

/// Fields of flows that are times, or follow from them.
const TIMES: [&str; 8] = [
    "flow_start",
    "flow_end",
    "forward_start",
    "forward_end",
    "reverse_start",
    "reverse_end",
    "handshake_rtt",
    "end_reason",
];

pub(crate) fn flows(text: &str, _: &Path) -> Vec<Line> {
    let flow = |line: &str| {
        let flow = serde_json::from_str(line).unwrap_or_default();
        separated(&flow, &TIMES, &["interface", "queue", "reverse_queue"])
    };
    let mut lines: Vec<_> = text.lines().map(flow).collect();
    lines.sort();
    lines
}

/// An object without these fields, and these fields.
fn separated(row: &Value, times: &[&str], places: &[&str]) -> Line {
    let mut row = row.clone();
    let mut take = |names: &[&str]| {
        let fields = row.as_object_mut();
        let take = |fields: &mut serde_json::Map<_, _>| {
            names.iter().map(|name| format!("{name}={:?} ", fields.remove(*name))).collect()
        };
        fields.map_or_else(String::new, take)
    };
    let time = take(times);
    let place = take(places);
    Line { text: row.to_string(), place, time }
}

/// The line of a packet as a file records it.
pub(crate) fn of_packet(packet: &Packet) -> Line {
    line(&shared::Packet {
        class: None,
        queue: Some(packet.queue),
        timestamp: packet.time,
        original_len: packet.original_len,
        data: packet.data.clone(),
    })
}

fn line(packet: &shared::Packet) -> Line {
    let mut hasher = DefaultHasher::new();
    packet.data.hash(&mut hasher);
    let (length, original, sum) = (packet.data.len(), packet.original_len, hasher.finish());
    Line {
        text: format!("{length} of {original} bytes, hash {sum:016x}"),
        place: packet.queue.map_or_else(String::new, |queue| format!("queue {queue}")),
        time: format!("{:020}", packet.timestamp),
    }
}

/// The capture files of a directory, by name.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some()).collect();
    files.sort();
    files
}
