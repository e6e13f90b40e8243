//! Answers are right, in every format, and read only the files that they need.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, TimestampNanosecondArray, UInt64Array};
use arrow_ipc::reader::{FileReader, StreamReader};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use super::{answer, query, three_hours};
use crate::made::{START, write};
use crate::rows::{packets, packets_of};
use wirelane_testkit::files;

fn rows(sql: &str, sources: &[&Path]) -> Vec<Value> {
    let text = answer(&[sql, "--format", "json"], sources);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The number of files, and the row groups skipped of all row groups.
fn read(sql: &str, source: &Path) -> (String, String) {
    let text = answer(&[sql, "--explain"], &[source]);
    let last = text.lines().last().unwrap();
    let told = last.split_once(": ").unwrap_or_else(|| panic!("{text}")).1;
    let mut parts = told.split(", ").map(str::to_owned);
    let files = parts.next().unwrap();
    (files, parts.last().unwrap())
}

#[test]
fn sums_and_times_are_those_of_the_flows() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let found = rows(
        "SELECT count(*) AS flows, sum(packets + reverse_packets) AS packets, sum(octets) AS octets, \
         min(flow_start) AS first, count(DISTINCT source) AS sources FROM flows",
        &[directory.path()],
    );
    let octets: u64 = three_hours().iter().map(|flow| flow.forward.octets).sum();
    let expected = json!({
        "flows": 300, "packets": 1500, "octets": octets,
        "first": "2026-11-23T02:00:00Z", "sources": 273,
    });
    assert_eq!(found, [expected]);
    let found = rows(
        "SELECT CAST(date AS VARCHAR) AS date, hour, host, count(*) AS flows FROM flows GROUP BY ALL ORDER BY hour",
        &[directory.path()],
    );
    let hour =
        |hour: &str| json!({"date": "2026-11-23", "hour": hour, "host": "probe", "flows": 100});
    assert_eq!(found, ["02", "03", "04"].map(hour));
}

#[test]
fn what_directories_and_statistics_rule_out_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let of = |condition: &str| {
        read(&format!("SELECT sum(octets) FROM flows WHERE {condition}"), directory.path())
    };
    let told =
        |files: &str, groups: &str| (files.to_owned(), format!("{groups} row groups skipped"));
    assert_eq!(of("octets >= 0"), told("3 files", "0 of 3"));
    assert_eq!(of("date = '2026-11-23' AND hour = '03'"), told("1 file", "0 of 1"));
    assert_eq!(of("hour > '02'"), told("2 files", "0 of 2"));
    assert_eq!(of("date > '2026-11-23'").0, "0 files");
    // The first by the least and largest addresses. The second is between them, so the Bloom filter
    // excludes it.
    assert_eq!(of("source = '10.1.0.5'"), told("3 files", "2 of 3"));
    assert_eq!(of("source = '10.1.0.50'"), told("3 files", "3 of 3"));
    assert_eq!(of("flow_start >= '2026-11-23T04:00:00Z'"), told("1 file", "0 of 1"));
    assert_eq!(of("flow_start < '2026-11-23T03:00:00Z'").0, "1 file");
    assert_eq!(of("flow_start <= '2026-11-23T03:00:00Z'").0, "2 files");
}

#[test]
fn one_answer_has_many_formats() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let source = [directory.path()];
    let sql = "SELECT flow_start, source, packets, vlan FROM flows WHERE source = '10.2.0.99'";
    assert_eq!(
        answer(&[sql, "--format", "csv"], &source),
        "flow_start,source,packets,vlan\n2026-11-23T04:01:39Z,10.2.0.99,3,\n"
    );
    assert_eq!(
        answer(&[sql, "--format", "json"], &source),
        "{\"flow_start\":\"2026-11-23T04:01:39Z\",\"source\":\"10.2.0.99\",\"packets\":3}\n"
    );
    let table = answer(&[sql], &source);
    let expected = "flow_start            source     packets  vlan\n2026-11-23T04:01:39Z  10.2.0.99        3\n";
    assert_eq!(table, expected);
    let nothing = "SELECT source FROM flows WHERE packets = 0";
    assert_eq!(answer(&[nothing, "--format", "csv"], &source), "source\n");

    let sql = "SELECT packets FROM flows";
    let to = tempfile::tempdir().unwrap();
    let path = |name: &str| to.path().join(name);
    let write = |name: &str| answer(&[sql, "-w", path(name).to_str().unwrap()], &source);
    assert_eq!(write("a.parquet"), "");
    assert_eq!(packets_of(&path("a.parquet")), [3; 300]);
    write("a.arrow");
    let reader = FileReader::try_new(File::open(path("a.arrow")).unwrap(), None).unwrap();
    assert_eq!(reader.flat_map(|batch| packets(&batch.unwrap())).count(), 300);
    write("a.csv");
    assert_eq!(fs::read_to_string(path("a.csv")).unwrap().lines().count(), 301);
    let ended = query(&[sql, "--format", "arrow"], &source).output().unwrap();
    let stream = StreamReader::try_new(&ended.stdout[..], None).unwrap();
    assert_eq!(stream.flat_map(|batch| packets(&batch.unwrap())).count(), 300);
}

#[test]
fn single_files_and_parts_of_directories_are_sources_too() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &three_hours());
    let all = files::below(directory.path());
    let sql = "SELECT count(*) AS n, min(hour) AS hour, min(host) AS host FROM flows";
    let day = directory.path().join("date=2026-11-23");
    let of = |n: u64, hour: &str| json!({"n": n, "hour": hour, "host": "probe"});
    assert_eq!(rows(sql, &[&all[1]]), [of(100, "03")]);
    assert_eq!(rows(sql, &[&all[1], &all[2]]), [of(200, "03")]);
    assert_eq!(rows(sql, &[&day]), [of(300, "02")]);
    assert_eq!(rows(sql, &[&day.join("hour=04")]), [of(100, "04")]);
    let elsewhere = tempfile::tempdir().unwrap();
    fs::copy(&all[0], elsewhere.path().join("copy [1].parquet")).unwrap();
    assert_eq!(rows(sql, &[elsewhere.path()]), [json!({"n": 100})]);
    assert_eq!(rows(sql, &[elsewhere.path(), &all[2]]), [of(200, "04")]);
}

#[test]
fn columns_that_a_file_has_not_are_null() {
    let directory = tempfile::tempdir().unwrap();
    let times = TimestampNanosecondArray::from(vec![START as i64]).with_timezone("UTC");
    let columns: [(&str, ArrayRef); 2] =
        [("flow_start", Arc::new(times)), ("packets", Arc::new(UInt64Array::from(vec![7])))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = File::create(directory.path().join("old.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let found = rows("SELECT packets, octets, source, date FROM flows", &[directory.path()]);
    assert_eq!(found, [json!({"packets": 7})]);
    // Together with files that have the columns.
    let other = tempfile::tempdir().unwrap();
    write(other.path(), &three_hours());
    let sql = "SELECT count(*) AS n, count(octets) AS octets FROM flows";
    assert_eq!(rows(sql, &[directory.path(), other.path()]), [json!({"n": 301, "octets": 300})]);
}

#[test]
fn sql_may_come_on_standard_input() {
    let mut command = query(&["--format", "csv"], &[]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 1 + 1 AS two\n;").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(ended.stdout).unwrap(), "two\n2\n");
}

/// The time between two times is a number of seconds with its whole fraction, below and above 2.1
/// s.
#[test]
fn parts_of_durations_are_exact() {
    let directory = tempfile::tempdir().unwrap();
    let lengths: [u64; 5] =
        [0, 1_500_000_000, 5_622_233_899, 61_250_000_000, 3 * 86_400_000_000_000 + 1];
    let flow = |length: &u64| {
        let mut flow = three_hours()[0].clone();
        flow.reverse = wirelane_flow::Half::default();
        flow.forward.end = flow.forward.start + length;
        flow
    };
    write(directory.path(), &lengths.iter().map(flow).collect::<Vec<_>>());
    let part = |name: &str| format!("extract({name} FROM flow_end - flow_start) AS {name}");
    let parts = ["epoch", "second", "millisecond", "microsecond", "nanosecond"].map(part);
    let sql = format!("SELECT {} FROM flows ORDER BY nanosecond", parts.join(", "));
    let found = rows(&sql, &[directory.path()]);
    for (row, length) in found.iter().zip(lengths) {
        let expected = json!({
            "epoch": length as f64 / 1e9, "second": length / 1_000_000_000,
            "millisecond": length / 1_000_000, "microsecond": length / 1000, "nanosecond": length,
        });
        assert_eq!(*row, expected);
    }
    let sql = "SELECT avg(date_part('epoch', flow_end - flow_start)) AS mean FROM flows \
        WHERE extract(epoch FROM flow_end - flow_start) BETWEEN 5.6 AND 5.7";
    assert_eq!(rows(sql, &[directory.path()]), [json!({"mean": 5.622_233_899})]);
}

#[test]
fn an_empty_answer_says_so_to_people_alone() {
    let of = |format: &str| answer(&["SELECT 1 AS n WHERE FALSE", "--format", format], &[]);
    assert_eq!(of("table"), "n\nno rows\n");
    assert_eq!((of("csv").as_str(), of("json").as_str()), ("n\n", ""));
}
