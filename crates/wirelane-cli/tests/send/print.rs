//! `--print`: the first packets, without sending.

use tempfile::tempdir;
use wirelane_testkit::{packets, tools};

use super::*;

#[test]
fn the_first_packets_are_printed_without_a_port() {
    let ended = output(&mut wirelane(["send", "--packet", "ipv4 udp dst=53-54", "--print", "3"]));
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let heads: Vec<_> = ended.stdout.lines().filter(|line| line.starts_with("packet ")).collect();
    let expected = [
        "packet 1: 60 bytes, at 0.000000000 s",
        "packet 2: 60 bytes, at 0.001000000 s",
        "packet 3: 60 bytes, at 0.002000000 s",
    ];
    assert_eq!(heads, expected);
    if tools::require("tshark") {
        assert_eq!(ended.stdout.matches("198.18.0.1").count(), 3, "{}", ended.stdout);
    }
}

#[test]
fn a_file_is_printed_as_it_is() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("x.pcap");
    let frame = packets::udp4(7).length(70).build();
    write(&path, 1, std::slice::from_ref(&frame));
    let path = path.display().to_string();
    for args in [vec!["send", &path, "--print", "9"], vec!["send", "eth9", &path, "--print", "9"]] {
        let ended = output(&mut wirelane(args));
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
        let rows = ended.stdout.lines().filter(|line| line.starts_with("  00"));
        let hex = rows.flat_map(|row| row.split_whitespace().skip(1));
        let bytes: Vec<_> = hex.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        assert!(bytes == frame);
    }
}
