//! Tests the wrappers of Wireshark's tools with handmade files.

use std::fs;
use std::path::PathBuf;

use wirelane_testkit::tshark::{
    capinfos, check_clean, check_clean_with_checksums, filtered_fields, tshark_fields,
};
use wirelane_testkit::{packets, tools};

#[test]
fn good_file_is_described() {
    if !tools::require("tshark") || !tools::require("capinfos") {
        return;
    }
    let (_directory, path) = write(&pcap(&[frame(GOOD), frame(GOOD)]));
    let infos = capinfos(&path);
    assert_eq!((infos.packets, infos.data_bytes, infos.in_order), (2, 2 * 46, true));
    assert_eq!(infos.interfaces.len(), 1);
    assert_eq!(infos.interfaces[0].packets, 2);
    assert_eq!(check_clean(&path), 2);
    assert_eq!(check_clean_with_checksums(&path), 2);
    let fields = ["frame.number", "udp.dstport", "tcp.port"];
    assert_eq!(tshark_fields(&path, &fields), [["1", "9", ""], ["2", "9", ""]]);
    assert_eq!(filtered_fields(&path, "frame.number > 1", &fields), [["2", "9", ""]]);
}

#[test]
fn built_packets_are_what_they_should_be() {
    if !tools::require("tshark") {
        return;
    }
    let frames = [packets::udp4, packets::udp6, packets::tcp4, packets::tcp6]
        .map(|make| make(3).vlan(42).length(301).build());
    let (_directory, path) = write(&pcap(&frames));
    assert_eq!(check_clean_with_checksums(&path), 4);
    let fields = tshark_fields(&path, &["vlan.id", "frame.len", "_ws.col.Protocol"]);
    let protocols = ["UDP", "UDP", "TCP", "TCP"];
    assert_eq!(fields, protocols.map(|protocol| ["42", "301", protocol]));
}

#[test]
#[should_panic(expected = "cut short")]
fn truncated_file_is_not_clean() {
    if !tools::require("tshark") {
        panic!("cut short: nothing to test");
    }
    let mut bytes = pcap(&[frame(GOOD)]);
    bytes.pop();
    let (_directory, path) = write(&bytes);
    check_clean(&path);
}

#[test]
#[should_panic(expected = "packet 2")]
fn wrong_checksum_is_not_clean() {
    if !tools::require("tshark") {
        panic!("packet 2: nothing to test");
    }
    let (_directory, path) = write(&pcap(&[frame(GOOD), frame(GOOD + 1)]));
    assert_eq!(check_clean(&path), 2);
    check_clean_with_checksums(&path);
}

/// The IPv4 checksum of [`frame`].
const GOOD: u16 = 0xf6c9;

fn write(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("test.pcap");
    fs::write(&path, bytes).expect("writing a capture file");
    (directory, path)
}

fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    // Magic, version 2.4, time zone, accuracy, snap length, Ethernet.
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1_u32] {
        file.extend(word.to_le_bytes());
    }
    for (second, frame) in frames.iter().enumerate() {
        let length = frame.len() as u32;
        for word in [second as u32, 0, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// A UDP packet from 192.0.2.1 to 192.0.2.2, port 9, with the given IPv4 checksum.
fn frame(checksum: u16) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17]);
    frame.extend(checksum.to_be_bytes());
    frame.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    // From port 9 to port 9, length 12, without a checksum.
    frame.extend([0, 9, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}
