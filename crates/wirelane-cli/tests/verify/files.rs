//! Generated files.

use std::fs;
use std::process::Stdio;

use tempfile::{TempDir, tempdir};
use wirelane::mask::Class;
use wirelane::pcap::{CaptureWriter, Direction, Record, Source, WriterOptions};
use wirelane_testkit::oracle::Random;
use wirelane_testkit::{packets, tools};

use super::*;

/// Sixty packets of each kind, of all lengths.
fn good() -> Vec<Vec<u8>> {
    let kinds = [packets::udp4, packets::udp6, packets::tcp4, packets::tcp6];
    let packet = |number: u64| {
        let length = 90 + (number as usize * 37) % 1400;
        kinds[number as usize % 4](number).length(length).build()
    };
    (0..240).map(packet).collect()
}

#[track_caller]
fn write(name: &str, packets: &[Vec<u8>], snaplen: usize) -> (TempDir, std::path::PathBuf) {
    let directory = tempdir().unwrap();
    let path = directory.path().join(name);
    let sources = [Source::new("eth0", Class::Rx, Some(0))];
    let mut writer =
        CaptureWriter::create(&path, &sources, WriterOptions::of_path(&path), 0).unwrap();
    for (index, packet) in packets.iter().enumerate() {
        let record = Record {
            interface: 0,
            timestamp: 1_700_000_000_000_000_000 + index as u64 * 1000,
            original_len: packet.len() as u32,
            direction: Direction::Unknown,
            data: &packet[..packet.len().min(snaplen)],
        };
        writer.write(&record).unwrap();
    }
    writer.finish(&[]).unwrap();
    (directory, path)
}

#[test]
fn good_files_of_every_format_are_clean() {
    for name in ["t.pcapng", "t.pcap", "t.pcapng.gz", "t.pcapng.zst"] {
        let (_directory, path) = write(name, &good(), usize::MAX);
        let ended = verify(&path, &["--strict", "--mtu", "1500"]);
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
        assert!(ended.stdout.contains("240 packets, no violation, 0 notes"), "{}", ended.stdout);
        assert!(ended.stdout.contains("tcp-checksum       120 checked"), "{}", ended.stdout);
    }
}

#[test]
fn a_violation_is_a_line_with_its_packet_and_rfc() {
    let mut packets = good();
    *packets[6].last_mut().unwrap() ^= 1;
    packets[8][22] ^= 1;
    let (_directory, path) = write("t.pcapng", &packets, usize::MAX);
    let ended = verify(&path, &[]);
    assert_eq!(ended.status.code(), Some(1));
    let lines: Vec<_> = ended.stdout.lines().collect();
    assert!(lines[0].starts_with("packet 7: tcp-checksum: expected 0x"), "{}", ended.stdout);
    assert!(lines[0].ends_with("[RFC 9293 section 3.1, RFC 8200 section 8.1]"), "{}", lines[0]);
    assert!(lines[1].starts_with("packet 9: ipv4-checksum: "), "{}", ended.stdout);
    assert!(lines[2].ends_with("240 packets, 2 violations, 0 notes"), "{}", ended.stdout);
    assert_eq!(ended.stderr, format!("wirelane: {}: 2 violations\n", path.display()));

    let (document, clean) = audit(&path, &["--max", "1"]);
    assert!(!clean);
    assert_eq!((number(&document["violations"]), number(&document["findings_omitted"])), (2, 1));
    assert_eq!(document["findings"].as_array().unwrap().len(), 1);
    assert_eq!(document["findings"][0]["rule"], "tcp-checksum");
    assert_eq!(rule(&document, "ipv4-checksum", "first"), 9);
    let ended = verify(&path, &["--max", "1"]);
    assert!(ended.stdout.contains("… and 1 more (raise --max)"), "{}", ended.stdout);
}

#[test]
fn standard_input_is_a_file() {
    let (_directory, path) = write("t.pcapng.gz", &good(), usize::MAX);
    let mut command = wirelane(["verify", "-"]);
    command.stdin(Stdio::from(fs::File::open(path).unwrap()));
    let ended = command.output().unwrap();
    let text = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{text}");
    assert!(text.contains("standard input: 240 packets"), "{text}");
}

#[test]
fn what_is_not_checked_is_said() {
    let (_directory, path) = write("t.pcapng", &good(), 80);
    let ended = verify(&path, &[]);
    assert_eq!(ended.status.code(), Some(0));
    let cut = "tcp-checksum       0 checked, 120 not checked: cut by the snap length";
    assert!(ended.stdout.contains(cut), "{}", ended.stdout);
    assert_eq!(number(&audit(&path, &[]).0["cut"]), 240);
}

/// A data frame and an encrypted one of 802.11, and both behind PPI.
#[test]
fn encrypted_frames_are_told_from_what_is_not_ip() {
    let ip = &packets::udp4(1).build()[14..];
    let snap = [0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
    let frame = |flags: u8| [&[8, flags][..], &[0; 22], &snap, ip].concat();
    let directory = tempdir().unwrap();
    for (link_type, header) in [(105, &[][..]), (192, &[0, 0, 8, 0, 105, 0, 0, 0])] {
        let path = directory.path().join(format!("{link_type}.pcapng"));
        let source = Source { link_type, ..Source::new("wlan0", Class::Rx, None) };
        let mut writer =
            CaptureWriter::create(&path, &[source], WriterOptions::of_path(&path), 0).unwrap();
        for flags in [1, 0x41] {
            let data = &[header, &frame(flags)].concat();
            let (timestamp, original_len) = (1_700_000_000_000_000_000, data.len() as u32);
            let direction = Direction::Unknown;
            let record = Record { interface: 0, timestamp, original_len, direction, data };
            writer.write(&record).unwrap();
        }
        writer.finish(&[]).unwrap();
        let ended = verify(&path, &["--json"]);
        let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
        let counts = ["packets", "encrypted", "not_ip", "unknown_link"].map(|name| &summary[name]);
        assert_eq!(counts, [2, 1, 0, 0], "{link_type}");
        let ended = verify(&path, &[]);
        assert!(ended.stdout.contains("1 packet: not checked: encrypted"), "{}", ended.stdout);
    }
}

#[test]
fn damaged_files_and_wrong_usage_are_refused() {
    let (directory, path) = write("t.pcapng", &good(), usize::MAX);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1000]).unwrap();
    let ended = verify(&path, &[]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("cut short"), "{}", ended.stderr);
    let missing = directory.path().join("none").display().to_string();
    refused(&["verify", &missing], 1, &["none", "ENOENT"]);
    refused(&["verify"], 2, &["FILE"]);
    refused(&["verify", "--mtu", "20", "x"], 2, &["--mtu"]);
}

/// Packets with random bits changed in their payload or checksums: the same ones are wrong for
/// tshark.
#[test]
fn tshark_agrees_on_checksums() {
    if !tools::require("tshark") {
        return;
    }
    let mut random = Random::new(7);
    let mut packets = good();
    for packet in &mut packets {
        if random.below(3) == 0 {
            // Not in lengths or addresses, where the two tools may report different rules.
            let header = if packet[12] == 8 { 34 } else { 54 };
            let at = header + 16 + random.below((packet.len() - header - 16) as u64) as usize;
            packet[at] ^= 1 << random.below(8);
        }
    }
    let (_directory, path) = write("t.pcapng", &packets, usize::MAX);
    let (document, _) = audit(&path, &["--max", "1000"]);
    let wrong = broken(&document, "-checksum");
    assert!(wrong.len() > 40, "{wrong:?}");
    assert_eq!(wrong, wrong_checksums(&path));
}
