//! The table `packets`, over captures and stores of `wirelane capture` and `wirelane record`.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::thread;

use wirelane_testkit::process;
use wirelane_wire::{MacAddr, packet};

use super::{answer, query, refusal};
use crate::flows::wirelane;
use crate::made::START;

/// The output of a command that succeeds.
fn output(command: &mut Command) -> String {
    let ended = process::output(command);
    assert!(ended.status.success(), "{}", ended.stderr);
    ended.stdout
}

/// A capture of 10,000 packets of two queues.
fn capture(to: &Path) {
    let port = "sim:2?count=10000&flows=300&seed=3";
    output(wirelane().args(["capture", port, "-q", "-w"]).arg(to));
}

/// A store of small extents of two queues.
fn store(to: &Path) {
    let port = "sim:2?count=40000&flows=4000&seed=4&size=500";
    output(wirelane().args(["record", port, "-q"]).arg(to));
}

/// The first value of the first row.
fn value(sql: &str, sources: &[&Path]) -> String {
    let text = answer(&[sql, "--format", "csv"], sources);
    text.lines().nth(1).unwrap_or_default().to_owned()
}

/// Packets that `wirelane extract` finds in a store.
fn extracted(store: &Path, arguments: &[&str]) -> String {
    let text = output(wirelane().args(["extract", "--count", "--json"]).arg(store).args(arguments));
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    document["packets"].to_string()
}

#[test]
fn rows_are_the_packets_that_tshark_sees() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.pcapng");
    capture(&file);
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&file).args(["-T", "fields", "-E", "separator=,"]);
    for field in ["frame.time_epoch", "frame.len", "ip.src", "udp.srcport", "tcp.srcport"] {
        tshark.args(["-e", field]);
    }
    let sql = "SELECT time, length, source, source_port, protocol FROM packets";
    let rows = answer(&[sql, "--format", "json"], &[&file]);
    let expected = output(&mut tshark);
    assert_eq!(rows.lines().count(), 10_000);
    for (row, line) in rows.lines().zip(expected.lines()) {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        let fields: Vec<_> = line.split(',').collect();
        let (_, fraction) = fields[0].split_once('.').unwrap();
        let fraction = format!(".{}", fraction.trim_end_matches('0'));
        assert!(row["time"].as_str().unwrap().contains(&fraction), "{row} {line}");
        assert_eq!(row["length"].to_string(), fields[1], "{row} {line}");
        assert_eq!(row["source"].as_str().unwrap(), fields[2], "{row} {line}");
        let port = if row["protocol"] == 17 { fields[3] } else { fields[4] };
        assert_eq!(row["source_port"].to_string(), port, "{row} {line}");
    }
}

#[test]
fn stores_are_asked_by_their_index() {
    let directory = tempfile::tempdir().unwrap();
    let store_path = directory.path().join("store");
    store(&store_path);
    let all = extracted(&store_path, &[]);
    assert_eq!(value("SELECT count(*) FROM packets", &[&store_path]), all);
    assert_eq!(value("SELECT count(source) FROM packets", &[&store_path]), all);

    // The address and port with the fewest packets.
    let sql =
        "SELECT source, source_port, count(*) FROM packets GROUP BY 1, 2 ORDER BY 3, 1, 2 LIMIT 1";
    let rare = value(sql, &[&store_path]);
    let fields: Vec<_> = rare.split(',').collect();
    let expression = format!("src host {} and src port {}", fields[0], fields[1]);
    let found = extracted(&store_path, &[&expression]);
    assert_eq!(found, fields[2]);
    let condition = format!("source = '{}' AND source_port = {}", fields[0], fields[1]);
    let by_columns = format!("SELECT count(*) FROM packets WHERE {condition}");
    assert_eq!(value(&by_columns, &[&store_path]), found);
    let by_bpf = format!("SELECT count(*) FROM packets WHERE bpf('{expression}')");
    assert_eq!(value(&by_bpf, &[&store_path]), found);
    let by_both = format!("{by_columns} AND bpf('src port {}')", fields[1]);
    assert_eq!(value(&by_both, &[&store_path]), found);

    for sql in [&by_columns, &by_bpf] {
        let explained = answer(&["--explain", sql], &[&store_path]);
        let summary = explained.lines().last().unwrap();
        let words: Vec<_> = summary.split(' ').collect();
        let at = words.iter().position(|word| *word == "extents").unwrap();
        let number = |at: usize| words[at].parse::<u32>().unwrap();
        let (read, extents) = (number(at - 3), number(at - 1));
        assert!(0 < read && read < extents, "{explained}");
    }
    let none = "SELECT count(*) FROM packets WHERE source = '192.0.2.77'";
    let explained = answer(&["--explain", none], &[&store_path]);
    assert!(explained.contains(", 0 bytes read, 0 of "), "{explained}");
}

#[test]
fn times_and_order_are_those_of_the_packets() {
    let directory = tempfile::tempdir().unwrap();
    let (file, store_path) = (directory.path().join("a.pcap"), directory.path().join("store"));
    store(&store_path);
    output(wirelane().args(["extract", "-q", "-w"]).arg(&file).arg(&store_path));
    let median = value("SELECT time FROM packets ORDER BY time LIMIT 1 OFFSET 30000", &[&file]);
    for condition in [">", ">=", "<", "<=", "="] {
        let sql = format!("SELECT count(*) FROM packets WHERE time {condition} '{median}'");
        let counted = value(&sql, &[&file]);
        assert_eq!(value(&sql, &[&store_path]), counted, "{sql}");
        let rows = sql.replace("count(*)", "count(source)");
        assert_eq!(value(&rows, &[&store_path]), counted, "{rows}");
        assert_ne!(counted, "0");
    }
    let sql = "SELECT time, source, source_port FROM packets ORDER BY time, source, source_port";
    let arguments = [sql, "--format", "csv"];
    assert_eq!(answer(&arguments, &[&file]), answer(&arguments, &[&store_path]));
}

#[test]
fn a_query_that_needs_few_packets_reads_few() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.pcap");
    output(wirelane().args(["capture", "sim:1?count=400000&size=500", "-q", "-w"]).arg(&file));
    let whole = fs::metadata(&file).unwrap().len();
    let explained = answer(&["--explain", "SELECT source FROM packets LIMIT 3"], &[&file]);
    let summary = explained.lines().last().unwrap();
    let words: Vec<_> = summary.split(' ').collect();
    let at = words.iter().position(|word| *word == "bytes").unwrap();
    let read: u64 = words[at - 1].parse().unwrap();
    assert!(summary.starts_with("3 rows") && 0 < read && read < whole / 10, "{explained}");
}

#[test]
fn what_cannot_be_read_is_told_beside_the_answer() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.pcapng");
    capture(&file);
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let sql = "SELECT count(*) AS n FROM packets";
    let ended = process::output(&mut query(&[sql, "--format", "csv"], &[&file]));
    assert_eq!(ended.status.code(), Some(1));
    let count: u32 = ended.stdout.lines().nth(1).unwrap().parse().unwrap();
    assert!((1000..9000).contains(&count), "{count}");
    assert!(
        ended.stderr.contains("a.pcapng") && ended.stderr.contains("could be read"),
        "{}",
        ended.stderr
    );
}

#[test]
fn wrong_questions_say_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.pcapng");
    capture(&file);
    let text = directory.path().join("text");
    fs::write(&text, "no capture").unwrap();
    for (sql, source, status, words) in [
        ("SELECT * FROM packets WHERE bpf('udp and')", &file, 2, "bpf('udp and')"),
        ("SELECT * FROM packets WHERE bpf('udp') OR length = 1", &file, 2, "beside AND"),
        ("SELECT bpf('udp') FROM packets", &file, 2, "beside AND"),
        ("SELECT price FROM packets", &file, 2, "columns"),
        ("SELECT * FROM flows", &file, 2, "there is no table flows"),
        ("SELECT * FROM packets", &text, 1, "text"),
    ] {
        let (code, said) = refusal(&[sql], &[source]);
        assert!(code == status && said.contains(words), "{sql}: {code} {said}");
    }
}

/// Writes a capture of a day: frames of 1,400 bytes, evenly over the day, about 3,600 per host.
fn day(packets: u64, mut to: impl Write) {
    const DAY: u64 = 24 * 3600;
    let header = [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 0xffff, 1_u32];
    header.iter().for_each(|word| to.write_all(&word.to_le_bytes()).unwrap());
    let link = packet::ethernet(MacAddr([2; 6]), MacAddr([4; 6]));
    let frame = link.ipv4([10, 0, 0, 0].into(), [192, 0, 2, 1].into()).udp(1, 2, &[7; 1358]);
    let mut bytes = vec![0; frame.len()];
    frame.emit(&mut bytes).unwrap();
    for number in 0..packets {
        // A pseudo-random host, so that each second has many hosts.
        let host = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % (packets / 3600);
        bytes[28..30].copy_from_slice(&(host as u16).to_be_bytes());
        let time = START + DAY * 1_000_000_000 / packets * number;
        let (seconds, rest) = ((time / 1_000_000_000) as u32, (time % 1_000_000_000) as u32);
        let length = bytes.len() as u32;
        for word in [seconds, rest, length, length] {
            to.write_all(&word.to_le_bytes()).unwrap();
        }
        to.write_all(&bytes).unwrap();
    }
}

/// Asks for five minutes of one host, in a day of `packets` packets. The query may read at most
/// `percent` of the store.
fn five_minutes(packets: u64, percent: f64) {
    let directory = tempfile::tempdir().unwrap();
    let (pipe, path) = (directory.path().join("pipe"), directory.path().join("store"));
    output(Command::new("mkfifo").arg(&pipe));
    let to = pipe.clone();
    let writer = thread::spawn(move || {
        let file = fs::OpenOptions::new().write(true).open(to).unwrap();
        day(packets, BufWriter::with_capacity(1 << 20, file));
    });
    let port = format!("file:{}", pipe.display());
    output(wirelane().args(["record", &port, "-q"]).arg(&path));
    writer.join().unwrap();

    let whole: u64 =
        fs::read_dir(&path).unwrap().map(|it| it.unwrap().metadata().unwrap().len()).sum();
    let sql = "SELECT count(*) FROM packets WHERE source = '10.0.0.7' \
               AND time >= '2026-11-23 12:00:00' AND time < '2026-11-23 12:05:00'";
    let by_bpf = sql.replace("source = '10.0.0.7'", "bpf('src host 10.0.0.7')");
    let found = value(sql, &[&path]);
    assert_ne!(found, "0");
    assert_eq!(value(&by_bpf, &[&path]), found);
    let explained = answer(&["--explain", sql], &[&path]);
    let summary = explained.lines().last().unwrap();
    let words: Vec<_> = summary.split(' ').collect();
    let at = words.iter().position(|word| *word == "bytes").unwrap();
    let read: f64 = words[at - 1].parse().unwrap();
    let share = read / whole as f64 * 100.0;
    assert!(0.0 < read && share <= percent, "{share} %: {explained}");
}

#[test]
fn five_minutes_of_a_host_are_a_small_part_of_a_day() {
    five_minutes(100_000, 3.0);
}

#[test]
#[ignore = "writes 5 GB"]
fn five_minutes_of_a_host_are_a_small_part_of_five_gigabytes() {
    five_minutes(3_600_000, 2.0);
}

/// Rows that `flows --packets -w DIR/` wrote: alone, by the hour, and together with a capture.
#[test]
fn packets_in_parquet_are_rows_of_the_table() {
    let directory = tempfile::tempdir().unwrap();
    let (file, rows) = (directory.path().join("a.pcapng"), directory.path().join("rows"));
    capture(&file);
    output(wirelane().arg("flows").arg(&file).args(["--packets", "-q", "-w"]).arg(rows.join("")));
    let columns = "time, interface, length, source, destination_port, tcp_flags, community_id";
    let sql = format!(
        "SELECT {columns} FROM packets \
        ORDER BY time, length, source, destination_port, community_id"
    );
    let of = |source: &Path| answer(&[&sql, "--format", "csv"], &[source]);
    assert_eq!(of(&rows), of(&file));
    let (count, late) = ("SELECT count(*) FROM packets", " WHERE time > '2200-01-01'");
    assert_eq!(value(count, &[&rows]), "10000");
    assert_eq!(value(count, &[&rows, &file]), "20000");
    assert_eq!(value("SELECT count(data) FROM packets", &[&rows]), "0");
    let explained = answer(&[&format!("{count}{late}"), "--explain"], &[&rows]);
    assert!(explained.contains(": 0 files, "), "{explained}");
    // A single file, whatever its name.
    let one = wirelane_testkit::files::below(&rows)[0].clone();
    let renamed = directory.path().join("x.parquet");
    fs::copy(one, &renamed).unwrap();
    assert_eq!(value(count, &[&renamed]), "10000");
    let (status, said) = refusal(&["SELECT bpf('ip') FROM packets"], &[&rows]);
    assert!(status == 2 && said.contains("of capture files and stores"), "{said}");
}

/// The flows of a capture and its packets have the same IDs.
#[test]
fn packets_have_the_community_ids_of_their_flows() {
    let directory = tempfile::tempdir().unwrap();
    let (file, flows) = (directory.path().join("a.pcapng"), directory.path().join("flows"));
    capture(&file);
    output(wirelane().arg("flows").arg(&file).args(["-q", "-w"]).arg(flows.join("")));
    let of_packets = "SELECT community_id, count(*) AS n FROM packets GROUP BY 1 ORDER BY 1";
    let of_flows = "SELECT community_id, sum(packets + coalesce(reverse_packets, 0)) AS n \
        FROM flows GROUP BY 1 ORDER BY 1";
    let found = answer(&[of_packets, "--format", "csv"], &[&file]);
    assert_eq!(found, answer(&[of_flows, "--format", "csv"], &[&flows]));
    assert!(found.lines().count() > 100, "{found}");
}
