//! Rows have the values that tshark prints.

use std::fs;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type};
use arrow_array::{Array as _, RecordBatch};
use arrow_schema::DataType;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use wirelane_testkit::{process, tools, tshark};

use super::{capture, count, flows, rows, summary, text};
use crate::flows::wirelane;
use wirelane_testkit::files;

/// Columns and tshark's fields for them: a field for each header that may have the value.
const COLUMNS: [(&str, &[&str]); 11] = [
    ("time", &["frame.time_epoch"]),
    ("length", &["frame.len"]),
    ("captured", &["frame.cap_len"]),
    ("vlan", &["vlan.id"]),
    ("source", &["ip.src", "ipv6.src"]),
    ("destination", &["ip.dst", "ipv6.dst"]),
    ("protocol", &["ip.proto", "ipv6.nxt"]),
    ("source_port", &["tcp.srcport", "udp.srcport"]),
    ("destination_port", &["tcp.dstport", "udp.dstport"]),
    ("tcp_sequence", &["tcp.seq_raw"]),
    ("ttl", &["ip.ttl", "ipv6.hlim"]),
];

/// The value as tshark prints it.
fn cell(batch: &RecordBatch, name: &str, row: usize) -> String {
    let column = batch.column_by_name(name).unwrap();
    if column.is_null(row) {
        return String::new();
    }
    match column.data_type() {
        DataType::Timestamp(..) => {
            let time = column.as_primitive::<TimestampNanosecondType>().value(row);
            format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
        }
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).to_string(),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).to_string(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).to_string(),
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        _ => column.as_string_view().value(row).to_owned(),
    }
}

#[test]
fn rows_have_what_tshark_reads_and_lie_in_their_hours() {
    if !tools::require("tshark") {
        return;
    }
    const COUNT: usize = 5000;
    let directory = tempfile::tempdir().unwrap();
    let (file, to) = (directory.path().join("a.pcapng.zst"), directory.path().join("rows/"));
    capture(&file, COUNT as u64);
    let ended = flows(&["--json", "-w", text(&to), "--host", "probe", text(&file)]);
    let summary = summary(&ended);
    let export = &summary["packets"]["exports"][0];
    assert_eq!((&export["packets"], &export["files"]), (&COUNT.into(), &4.into()), "{export}");
    let paths = files::below(&to);
    let size: u64 = paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert_eq!(export["bytes"], size);
    for (path, hour) in paths.iter().zip(["02", "03", "04", "05"]) {
        let place = format!("date=2026-11-23/hour={hour}/host=probe/packets-{hour}");
        assert!(path.strip_prefix(&to).unwrap().to_str().unwrap().starts_with(&place), "{path:?}");
    }
    let fields: Vec<_> = COLUMNS.iter().flat_map(|column| column.1).copied().collect();
    let expected = tshark::tshark_fields(&file, &fields);
    assert_eq!(expected.len(), COUNT);
    let rows = rows(&to);
    let all = rows.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| (batch, row)));
    for ((batch, row), said) in all.zip(&expected) {
        let mut rest = &said[..];
        for (name, fields) in COLUMNS {
            let (said, others) = rest.split_at(fields.len());
            rest = others;
            let said = said.iter().find(|value| !value.is_empty());
            let found = cell(batch, name, row);
            assert_eq!(found, said.map(String::as_str).unwrap_or_default(), "{name} in {row}");
        }
    }
    assert_eq!(count(&rows), COUNT);
}

#[test]
fn files_say_what_is_where() {
    let directory = tempfile::tempdir().unwrap();
    let (file, to) = (directory.path().join("a.pcap"), directory.path().join("rows/"));
    capture(&file, 300);
    summary(&flows(&["--json", "--data", "-w", text(&to), text(&file)]));
    let path = &files::below(&to)[0];
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let metadata = reader.metadata();
    let said = metadata.file_metadata().key_value_metadata().unwrap();
    assert!(said.iter().any(|it| it.value.as_deref() == Some("wirelane.packets/1")), "{said:?}");
    let group = metadata.row_group(0);
    for column in group.columns() {
        let name = column.column_path().string();
        let is_address = name == "source" || name == "destination";
        assert_eq!(column.bloom_filter_offset().is_some(), is_address, "{name}");
        assert!(column.statistics().is_some(), "{name}");
    }
    // Column `data` has the captured bytes.
    let batch = &rows(&to)[0];
    let (data, captured) =
        (batch.column_by_name("data").unwrap(), batch.column_by_name("captured"));
    let captured = captured.unwrap().as_primitive::<UInt32Type>();
    let length = |row| match data.data_type() {
        DataType::Binary => data.as_binary::<i32>().value(row).len(),
        _ => data.as_binary_view().value(row).len(),
    };
    assert!((0..batch.num_rows()).all(|row| length(row) == captured.value(row) as usize));
}

#[test]
fn a_filter_a_number_and_a_store_choose_packets() {
    let directory = tempfile::tempdir().unwrap();
    let (file, to) = (directory.path().join("a.pcapng"), directory.path().join("rows/"));
    capture(&file, 2000);
    let tcp = summary(&flows(&["--json", "-w", text(&to), text(&file), "tcp"]));
    assert_eq!((&tcp["totals"]["filtered"], count(&rows(&to))), (&1000.into(), 1000));
    let (few, store) = (directory.path().join("few/"), directory.path().join("store"));
    summary(&flows(&["--json", "-w", text(&few), "-c", "700", text(&file)]));
    assert_eq!(count(&rows(&few)), 700);
    let port = "sim:2?count=3000&flows=50&rate=100kpps";
    process::run(wirelane().args(["record", port, "-q"]).arg(&store));
    let stored = directory.path().join("stored/");
    let found = summary(&flows(&["--json", "-w", text(&stored), text(&store), "udp"]));
    assert_eq!((&found["totals"]["received"], count(&rows(&stored))), (&3000.into(), 3000));
    let queues = |rows: &[RecordBatch]| {
        let of = |batch: &RecordBatch| {
            let queues = batch.column_by_name("queue").unwrap().as_primitive::<UInt16Type>();
            queues.iter().flatten().collect::<Vec<_>>()
        };
        let mut all: Vec<_> = rows.iter().flat_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    assert_eq!(queues(&rows(&stored)), [0, 1]);
}
