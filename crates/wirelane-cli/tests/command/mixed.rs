//! Files whose interfaces have several link types: every packet has the link type of its interface.

use std::fs;

use tempfile::tempdir;
use wirelane::pcap::{CaptureWriter, Direction, Record, Source, WriterOptions};
use wirelane_testkit::packets::{tcp4, udp4};
use wirelane_testkit::process::run;
use wirelane_testkit::tools;

use super::*;

/// Ethernet, a raw IP interface, and `any` of tcpdump (cooked).
const LINK_TYPES: [u16; 3] = [1, 101, 113];
const PACKETS: u32 = 300;

/// A packet in the form of this link type; every other one is TCP.
fn packet(number: u32, link_type: u16) -> Vec<u8> {
    let sequence = u64::from(number);
    let frame =
        if number.is_multiple_of(2) { tcp4(sequence).build() } else { udp4(sequence).build() };
    match link_type {
        101 => frame[14..].to_vec(),
        113 => [&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 8, 0], &frame[14..]].concat(),
        _ => frame,
    }
}

/// A file of three interfaces, whose packets alternate. `late`: each is described before its first
/// packet.
fn mixed(path: &Path, late: bool) {
    let sources = LINK_TYPES.map(|link_type| Source {
        name: format!("if{link_type}"),
        link_type,
        ..Source::default()
    });
    let (first, others) = sources.split_at(if late { 1 } else { 3 });
    let options = WriterOptions::of_path(path);
    let mut writer = CaptureWriter::create(path, first, options, 0).unwrap();
    for number in 0..PACKETS {
        if number < 3
            && let Some(source) = (number as usize).checked_sub(1).and_then(|at| others.get(at))
        {
            writer.add_source(source.clone()).unwrap();
        }
        let interface = number % 3;
        let data = packet(number, LINK_TYPES[interface as usize]);
        let record = Record {
            interface,
            timestamp: 1_700_000_000_000_000_000 + u64::from(number) * 1000,
            original_len: data.len() as u32,
            direction: Direction::Unknown,
            data: &data,
        };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
}

/// Link type, time and bytes of every packet.
fn content(path: &Path) -> Vec<(u16, u64, Vec<u8>)> {
    let mut reader = CaptureReader::open(path).unwrap();
    let mut found = Vec::new();
    while reader.advance().unwrap() {
        let record = reader.current();
        let link_type = reader.interfaces()[record.interface as usize].link_type;
        found.push((link_type, record.timestamp, record.data.to_vec()));
    }
    found
}

/// The lines that a command prints, without the interface of each packet.
fn lines(args: &[&str]) -> Vec<String> {
    let ended = output(wirelane(["capture", "-q", "-S", "--print"]).args(args));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    ended.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn every_interface_has_its_own_link_type() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_owned();
    let (x, y, z) = (text("x.pcapng"), text("y.pcapng"), text("z.pcapng"));
    for late in [false, true] {
        mixed(&path("x.pcapng"), late);
        let all = content(&path("x.pcapng"));
        let is_udp = |(link_type, _, data): &(u16, u64, Vec<u8>)| {
            let ip = [(1, 14), (101, 0), (113, 16)].iter().find(|(known, _)| known == link_type);
            data[ip.unwrap().1 + 9] == 17
        };
        // Written unchanged with their link types, and counted by their headers.
        run(&mut wirelane(["capture", "-qr", &x, "-w", &y]));
        assert!(content(&path("y.pcapng")) == all, "{late}");
        let table = run(&mut wirelane(["count", "-q", &x, "--by", "proto"]));
        for proto in ["ip/udp", "ip/tcp"] {
            let line = table.lines().find(|line| line.starts_with(proto)).unwrap();
            assert_eq!(line.split_whitespace().nth(1), Some("150"), "{table}");
        }
        // A filter means the same for each link type; rejected packets count for their interface.
        let ended = output(&mut wirelane(["capture", "-q", "--json", "-r", &x, "-w", &y, "udp"]));
        let summary = summary(&ended);
        let udp: Vec<_> = all.iter().filter(|packet| is_udp(packet)).cloned().collect();
        assert_eq!(udp.len(), 150);
        assert!(content(&path("y.pcapng")) == udp, "{late}");
        assert_eq!(summary["totals"]["filtered"], 150);
        for queue in summary["queues"].as_array().unwrap() {
            assert_eq!(queue["filtered"], number(&queue["packets"]), "{queue}");
        }
        // The lines equal the lines of each interface alone.
        let printed = lines(&["-r", &x]);
        assert_eq!(printed.len(), PACKETS as usize);
        run(&mut wirelane(["capture", "-qr", &x, "--split", "-w", &z]));
        let mut alone = Vec::new();
        for entry in fs::read_dir(directory.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_str().unwrap().starts_with("z.") {
                alone.extend(lines(&["-r", path.to_str().unwrap()]));
                fs::remove_file(path).unwrap();
            }
        }
        if !late {
            alone.sort();
            assert!(printed == alone, "{} {}", printed[0], alone[0]);
        }
    }
}

/// tshark selects the same packets.
#[test]
fn a_filter_selects_what_tshark_selects() {
    if !tools::require("tshark") {
        return;
    }
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.pcapng");
    mixed(&path, true);
    let seen = |filter: &str, file: &Path| {
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-T", "fields", "-e", "frame.time_epoch", "-Y", filter, "-r"]);
        run(tshark.arg(file))
    };
    let y = directory.path().join("y.pcapng");
    let words = ["capture", "-q", "-f", "udp", "-r"];
    run(wirelane(words).arg(&path).arg("-w").arg(&y));
    assert_eq!(seen("frame", &y).lines().count(), 150);
    assert_eq!(seen("frame", &y), seen("udp", &path));
}

#[test]
fn what_needs_one_link_type_says_so() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (x, y) = (path("x.pcapng"), path("y.pcap"));
    let from = format!("file:{x}");
    for late in [false, true] {
        mixed(Path::new(&x), late);
        for (words, status, parts) in [
            // pcap has one link type for all packets.
            (
                &["capture", "-q", "-r", &x, "-w", &y][..],
                1,
                &["y.pcap", "one link type", "write pcapng"][..],
            ),
            (&["convert", "-q", &x, &y], 1, &["y.pcap", "one link type", "write pcapng"]),
            // A filter may be invalid for one of the link types.
            (
                &["capture", "-q", "-r", &x, "ether host 02:00:00:00:00:01"],
                2,
                &["only on ethernet", "link type 101", "--split"],
            ),
            // The sink of a forwarder accepts one link type.
            (
                &["forward", "-q", &from, "file:-"],
                1,
                &["x.pcapng", "link types 1 and 101", "--split -w NAME.pcapng"],
            ),
        ] {
            let ended = output(&mut wirelane(words));
            assert_refused(&ended, status, parts);
            assert!(ended.stdout.is_empty() || words.contains(&"file:-"), "{words:?}");
            // A command that is refused at the start replaces no file.
            assert!(late || !Path::new(&y).exists());
        }
    }
}
