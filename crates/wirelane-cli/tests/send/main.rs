//! `wirelane send` as a user sees it: the packets arrive as requested, counters, and refusals.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "../shared/mod.rs"]
#[allow(dead_code, reason = "other commands need more of it")]
mod shared;
#[path = "../shared/ssh.rs"]
mod ssh;

mod bad_input;
mod files;
mod kernel;
mod nothing;
mod print;
mod replay;
mod wire;

use std::fs;
use std::path::Path;

use serde_json::Value;
use wirelane_testkit::process::output;

use self::shared::*;

/// Runs `wirelane send`, which must succeed. Returns the summary.
#[track_caller]
fn send(args: &[&str]) -> Value {
    sent(&summary(&output(wirelane(["send", "-q", "--json"]).args(args))))
}

/// Checks the sums.
#[track_caller]
fn sent(summary: &Value) -> Value {
    assert_eq!(summary["command"], "send");
    let rows = summary["tx"].as_array().unwrap();
    let packets: u64 = rows.iter().map(|row| number(&row["packets"])).sum();
    assert_eq!(number(&summary["totals"]["sent"]), packets);
    summary.clone()
}

/// The bytes of the packets of a file, in order.
fn bytes(path: &Path) -> Vec<Vec<u8>> {
    packets(path).into_iter().map(|packet| packet.data).collect()
}

/// A pcap file of these packets, a millisecond apart, with this link type.
fn write(path: &Path, link_type: u32, frames: &[Vec<u8>]) {
    let words = [0xA1B2_C3D4, 4 << 16 | 2, 0, 0, 262_144, link_type];
    let mut file: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
    for (number, frame) in (0..).zip(frames) {
        let len = frame.len() as u32;
        for word in [1_700_000_000 + number / 1000, number % 1000 * 1000, len, len] {
            file.extend_from_slice(&u32::to_le_bytes(word));
        }
        file.extend_from_slice(frame);
    }
    fs::write(path, file).unwrap();
}
