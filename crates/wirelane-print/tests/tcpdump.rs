//! Compares lines with tcpdump's, over the captures of tcpdump's tests.

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

/// Captures with a layer in front of IP that is printed by its name and length only, and one with
/// lengths that cannot be.
const OTHER_LAYERS: [(&str, &str); 7] = [
    ("aoe-oobr-1.pcap", "packets that had fewer bytes than there are, says the file"),
    ("arista_ether.pcap", "a time stamp of a vendor in front of IP"),
    ("macsec-", "MACsec that does not encrypt"),
    ("mpls-over-udp.pcap", "MPLS in UDP"),
    ("nsh", "network service headers"),
    ("lspping", "MPLS in PPP"),
    ("brcm-tag", "tags of a switch"),
];

#[test]
fn addresses_ports_flags_and_lengths_are_those_of_tcpdump() {
    compare(&Style::default(), &[], facts);
}

#[test]
fn link_headers_and_what_more_there_is_are_those_of_tcpdump() {
    let style = Style { link: true, verbose: 1, ..Style::default() };
    compare(&style, &["-e", "-v"], details);
}

/// Prints all captures in this style, and has tcpdump print them with these options. Both must
/// state the same facts.
#[track_caller]
fn compare(style: &Style, options: &[&str], facts: fn(&str) -> Vec<String>) {
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
        let Some(ours) = ours(&path, style) else { continue };
        let mut any = false;
        for (number, theirs) in tcpdump(&path, options) {
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

/// The facts of a line about a packet, as far as both programs print them.
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
    // Protocols that tcpdump recognizes only by content have another name here, or none.
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

/// Names of tcpdump that are printed as numbers here.
const OTHER_NAMES: [&str; 6] = [
    "DN (0x6003)",
    "GeoNet (old) (0x0707)",
    "CALM FAST (0x1111)",
    "OSI (0xfefe)",
    "CFM (old) (0xabcd)",
    "Mobile IP (old)",
];

/// The facts of a line about headers, as far as both programs print them with -e and -v.
fn details(line: &str) -> Vec<String> {
    let mut facts = Vec::new();
    // aa:bb:cc:dd:ee:ff > 11:22:33:44:55:66, ethertype IPv4 (0x0800), length 60:
    let is_mac = |word: &str| word.len() == 17 && word.matches(':').count() == 5;
    let mut words = line.split([' ', ',']);
    if is_mac(words.next().unwrap_or_default())
        && let Some(at) = line.find(", length ")
        && line.get(..at).is_some_and(|before| before.contains(", ethertype "))
    {
        let digits = line.get(at + 9..).unwrap_or_default();
        let digits = digits.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        facts.push(format!("{}, length {digits}", line.get(..at).unwrap_or_default()));
    }
    for (start, end) in [
        ("(tos ", ", length "),
        ("(class ", ")"),
        ("(flowlabel ", ")"),
        ("(hlim ", ")"),
        (", cksum 0x", ")"),
        ("[bad udp cksum ", "]"),
        ("[bad icmp6 cksum ", "]"),
        ("[udp sum ok", "]"),
        ("[icmp6 sum ok", "]"),
    ] {
        let Some(rest) = line.find(start).and_then(|at| line.get(at..)) else { continue };
        // Checksums of DCCP are not looked at.
        if line.contains(" DCCP (") && start == ", cksum 0x" {
            continue;
        }
        facts.extend(rest.split_once(end).map(|(part, _)| format!("{part}{end}")));
    }
    facts.retain(|fact| !OTHER_NAMES.iter().any(|name| fact.contains(name)));
    facts
}

fn ours(path: &Path, style: &Style) -> Option<Vec<String>> {
    let mut reader = CaptureReader::open(path).ok()?;
    let mut printer = Printer::new(Style { time: Time::None, ..style.clone() });
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

/// tcpdump's lines by the numbers of the packets. More lines may follow a line; only the line of IP
/// belongs to it.
fn tcpdump(path: &Path, options: &[&str]) -> BTreeMap<usize, String> {
    let mut command = Command::new("tcpdump");
    let output = command.args(["-#", "-nn", "-t"]).args(options).arg("-r").arg(path).output();
    let mut lines: BTreeMap<usize, String> = BTreeMap::new();
    let mut last = 0;
    for line in String::from_utf8_lossy(&output.unwrap().stdout).lines() {
        let numbered = line.trim_start().split_once("  ");
        let numbered = numbered.and_then(|(number, text)| Some((number.parse().ok()?, text)));
        if let Some((number, text)) = numbered {
            last = number;
            lines.entry(number).or_insert_with(|| text.to_owned());
        } else if let Some(before) = lines.get_mut(&last)
            && before.ends_with(')')
            && line.starts_with("    ")
        {
            before.push(' ');
            before.push_str(line.trim_start());
        }
    }
    lines
}
