//! `wirelane flows --packets`: from packets to rows.

mod errors;
mod formats;
mod live;
mod values;

use std::path::Path;

use arrow_array::RecordBatch;
use serde_json::Value;
use wirelane_pcap::{CaptureWriter, LINK_TYPE_ETHERNET, Record, Source, WriterOptions};
use wirelane_testkit::packets::{Packet, tcp4, tcp6, udp4, udp6};
use wirelane_testkit::process::{self, Output};

use crate::flows::wirelane;
use crate::made::{HOUR, START};
use crate::rows::batches_of;
use wirelane_testkit::files;

/// A capture of `count` packets of TCP and UDP, spread evenly over three hours. Every seventh is
/// truncated.
fn capture(path: &Path, count: u64) {
    let source = Source { link_type: LINK_TYPE_ETHERNET, ..Source::default() };
    let mut writer =
        CaptureWriter::create(path, &[source], WriterOptions::of_path(path), 0).unwrap();
    for number in 0..count {
        let kinds: [fn(u64) -> Packet; 4] = [udp4, tcp4, udp6, tcp6];
        let packet = kinds[(number % 4) as usize](number).flow((number % 50) as u16);
        let packet = if number % 5 == 0 { packet.vlan(7) } else { packet };
        let bytes = packet.length(90 + (number % 40) as usize * 10).build();
        let kept = if number % 7 == 0 { 80 } else { bytes.len() };
        let record = Record {
            interface: 0,
            timestamp: START + number * 3 * HOUR / count,
            original_len: bytes.len() as u32,
            direction: wirelane_pcap::Direction::Unknown,
            data: &bytes[..kept],
        };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// Runs `wirelane flows --packets` to its end.
fn flows(args: &[&str]) -> Output {
    process::output(wirelane().args(["flows", "--packets"]).args(args))
}

/// The summary of a successful run.
#[track_caller]
fn summary(ended: &Output) -> Value {
    assert!(ended.status.success(), "{}", ended.stderr);
    let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_conserved(&summary);
    summary
}

/// Every received packet is a row, or counted as something else.
#[track_caller]
fn assert_conserved(summary: &Value) {
    let totals = &summary["totals"];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} in {summary}"));
    let sum: u64 = ["filtered", "delivered", "dropped"].map(|it| number(&totals[it])).iter().sum();
    assert_eq!(number(&totals["received"]), sum, "{totals}");
    let export = &summary["packets"]["exports"][0];
    let rows = number(&export["packets"]) + number(&export["lost"]);
    assert_eq!(number(&totals["delivered"]), rows, "{summary}");
}

/// All rows of all files, in order of their paths.
fn rows(directory: &Path) -> Vec<RecordBatch> {
    files::below(directory).iter().flat_map(|path| batches_of(path)).collect()
}

fn count(rows: &[RecordBatch]) -> usize {
    rows.iter().map(RecordBatch::num_rows).sum()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
