//! Rows of packets on standard output, and in files of other formats than Parquet.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use serde_json::Value;
use wirelane_testkit::process;

use super::{capture, flows, summary, text};
use crate::flows::wirelane;

#[test]
fn each_format_has_a_row_for_each_packet() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.pcap");
    capture(&file, 10_000);
    let ended = flows(&[text(&file)]);
    assert!(ended.status.success() && ended.stderr.contains("10,000 packets"), "{}", ended.stderr);
    let lines: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 10_000);
    assert_eq!(lines[1]["time"], "2026-11-23T02:41:45.203456789Z");
    assert_eq!((&lines[1]["protocol"], &lines[0]["vlan"]), (&6.into(), &7.into()));
    let table = directory.path().join("rows.csv");
    let rows = summary(&flows(&["--json", "-w", text(&table), text(&file)]));
    assert_eq!(rows["packets"]["exports"][0]["packets"], 10_000);
    let table = fs::read_to_string(table).unwrap();
    let mut table = table.lines();
    assert!(table.next().unwrap().starts_with("time,interface,queue,class,length,captured,"));
    assert_eq!(table.count(), 10_000);
    let stream = directory.path().join("rows.arrows");
    summary(&flows(&["--json", "-w", text(&stream), "-c", "9000", text(&file)]));
    let stream = StreamReader::try_new(File::open(stream).unwrap(), None).unwrap();
    assert_eq!(stream.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 9000);
}

#[test]
fn standard_output_takes_a_stream_of_arrow() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.pcap");
    capture(&file, 1000);
    // `wirelane-query` reads a whole file by itself. With a filter, it gets packets by a pipe.
    for (filter, count) in [(&[][..], 1000), (&["udp"], 500)] {
        let mut command: Command = wirelane();
        let ended = command
            .args(["flows", "--packets", "-w", "-"])
            .arg(&file)
            .args(filter)
            .output()
            .unwrap();
        let stream = StreamReader::try_new(&ended.stdout[..], None).unwrap();
        let batches: Vec<RecordBatch> = stream.map(Result::unwrap).collect();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), count);
    }
    // Flows, too.
    let mut command = wirelane();
    let ended = command.args(["flows", "--format", "arrow"]).arg(&file).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let stream = StreamReader::try_new(&ended.stdout[..], None).unwrap();
    let of = |batch: RecordBatch| crate::rows::packets(&batch);
    assert_eq!(stream.flat_map(|batch| of(batch.unwrap())).sum::<u64>(), 1000);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.pcap");
    capture(&file, 20_000);
    for source in [text(&file), "sim:1?flows=50"] {
        let mut command = wirelane();
        command.args(["flows", "--packets", "--format", "csv", source]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.starts_with("time,"), "{line}");
        drop(output);
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.contains(" lost"), "{source}: {said}");
    }
}

/// The counts are on standard error, because standard output has the rows.
#[test]
fn the_program_tells_of_a_stream_on_standard_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.pcap");
    capture(&file, 100);
    let mut command = Command::new(env!("CARGO_BIN_EXE_wirelane-query"));
    command.args(["sink", "--packets", "--format", "json", "--json", "-r"]).arg(&file).arg("-");
    let ended = process::output(&mut command);
    assert_eq!(ended.stdout.lines().count(), 100);
    let told: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!((&told["packets"], &told["bytes"]), (&100.into(), &ended.stdout.len().into()));
}
