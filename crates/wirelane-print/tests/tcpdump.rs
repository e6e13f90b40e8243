//! Lines beside those of tcpdump, over the captures of its own tests.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use wirelane_pcap::CaptureReader;
use wirelane_print::{Packet, Printer, Style, Time};
use wirelane_testkit::tools;

/// The link types that are decoded.
const LINK_TYPES: [u16; 10] = [0, 1, 12, 14, 101, 108, 113, 228, 229, 276];
const CAPTURES: usize = 100;

/// Captures with a layer in front of IP that is printed by its name and length only.
const OTHER_LAYERS: [(&str, &str); 6] = [
    ("arista_ether.pcap", "a time stamp of a vendor in front of IP"),
    ("macsec-", "MACsec that does not encrypt"),
    ("mpls-over-udp.pcap", "MPLS in UDP"),
    ("nsh", "network service headers"),
    ("lspping", "MPLS in PPP"),
    ("brcm-tag", "tags of a switch"),
];

#[test]
fn addresses_ports_flags_and_lengths_are_those_of_tcpdump() {
    if !tools::require("tcpdump") {
        return;
    }
    let captures = tools::tcpdump_captures();
    let mut compared = 0;
    let mut differ = Vec::new();
    for path in captures {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if OTHER_LAYERS.iter().any(|(start, _)| name.starts_with(start)) {
            continue;
        }
        let Some(ours) = ours(&path) else { continue };
        let mut any = false;
        for (number, theirs) in tcpdump(&path) {
            let ours = ours.get(number - 1).map_or("", String::as_str);
            let expected = facts(&theirs);
            let have = facts(ours);
            any |= !expected.is_empty();
            if expected.iter().any(|fact| !have.contains(fact)) {
                differ.push(format!(
                    "{name} {number}\n  {theirs}\n  {ours}\n  {expected:?} {have:?}"
                ));
            }
        }
        compared += usize::from(any);
    }
    assert!(differ.is_empty(), "{} packets:\n{}", differ.len(), differ.join("\n"));
    assert!(compared >= CAPTURES, "only {compared} captures");
}

#[test]
fn damaged_packets_are_printed() {
    let mut printer = Printer::new(Style { verbose: 2, link: true, ..Style::default() });
    let mut damaged = 0u64;
    for path in tools::tcpdump_captures() {
        let Ok(mut reader) = CaptureReader::open(&path) else { continue };
        while let Ok(true) = reader.advance() {
            let record = reader.current();
            let Some(source) = reader.interfaces().get(record.interface as usize) else { break };
            let mut data = record.data.to_vec();
            // A cheap generator (Knuth's constants): the same damage every time.
            damaged = damaged
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let near = (damaged >> 33) as usize % data.len().clamp(1, 80);
            if let Some(byte) = data.get_mut(near) {
                *byte ^= (damaged >> 24) as u8;
            }
            data.truncate(if damaged & 1 == 0 { near + 1 } else { data.len() });
            let packet = Packet {
                timestamp: record.timestamp,
                place: "eth0 rx2",
                link_type: source.link_type,
                original_len: record.original_len,
                data: &data,
                comment: None,
            };
            let mut text = String::new();
            printer.print(&packet, &mut text);
            let printable = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
            assert!(
                text.ends_with('\n') && text.chars().all(printable),
                "{}: {text:?}",
                path.display()
            );
        }
    }
    assert_ne!(damaged, 0);
}

/// What a line says of a packet, as far as both programs say it.
fn facts(line: &str) -> Vec<String> {
    let mut facts = Vec::new();
    let is_ip = |before: &str| before.contains("IP ") || before.contains("IP6 ");
    if let Some((before, after)) = line.split_once(" > ").filter(|(before, _)| is_ip(before)) {
        let source = before.rsplit(' ').next().unwrap_or_default();
        let destination = after.split(' ').next().unwrap_or_default();
        if let Some(destination) = destination.strip_suffix(':') {
            facts.push(format!("{source} > {destination}"));
        }
    }
    if let Some((_, tcp)) = line.split_once(": Flags [") {
        // tcpdump does not know the flag of accurate ECN (RFC 9768).
        let words: Vec<_> = tcp.split(", ").collect();
        facts.push(words.first().unwrap_or(&"").replace("none]", "]").replace("e]", "]"));
        for word in ["seq ", "ack ", "win ", "length "] {
            // tcpdump stops at an option that it does not like.
            let Some(value) = words.iter().find_map(|it| it.strip_prefix(word)) else { continue };
            let value = value.split([' ', ':']).next().unwrap_or_default();
            facts.push(format!("{word}{value}"));
        }
    }
    // What tcpdump knows by its content alone has another name here, or none.
    let known = ["UDP, length ", "NetBIOS, length ", "SSDP, length "];
    let udp = line.split(": ").find(|it| known.iter().any(|start| it.starts_with(start)));
    if let Some((_, length)) = udp.and_then(|it| it.split_once(", length ")) {
        facts.push(format!("UDP {}", length.split(' ').next().unwrap_or_default()));
    }
    for start in [
        "ARP, Request who-has",
        "ARP, Reply",
        "ICMP echo",
        "ICMP time exceeded",
        "ICMP6, echo",
        "ICMP6, neighbor",
    ] {
        facts.extend(
            line.find(start).and_then(|at| line.get(at..)).map(|it| it.trim_end().to_owned()),
        );
    }
    facts
}

fn ours(path: &Path) -> Option<Vec<String>> {
    let mut reader = CaptureReader::open(path).ok()?;
    let mut printer = Printer::new(Style { time: Time::None, ..Style::default() });
    let mut lines = Vec::new();
    while let Ok(true) = reader.advance() {
        let record = reader.current();
        let link_type = reader.interfaces().get(record.interface as usize)?.link_type;
        if !LINK_TYPES.contains(&link_type) {
            return None;
        }
        let mut text = String::new();
        let packet = Packet {
            timestamp: record.timestamp,
            place: "",
            link_type,
            original_len: record.original_len,
            data: record.data,
            comment: None,
        };
        printer.print(&packet, &mut text);
        lines.push(text.trim_end().to_owned());
    }
    Some(lines)
}

/// Its lines by the numbers of the packets, without what it adds below them.
fn tcpdump(path: &Path) -> BTreeMap<usize, String> {
    let output =
        Command::new("tcpdump").args(["-#", "-nn", "-t", "-r"]).arg(path).output().unwrap();
    let mut lines = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Some((number, text)) = line.trim_start().split_once("  ") else { continue };
        if let Ok(number) = number.parse() {
            lines.entry(number).or_insert_with(|| text.to_owned());
        }
    }
    lines
}
