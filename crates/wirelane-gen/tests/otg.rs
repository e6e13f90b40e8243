//! Flow files from the Python client of the Open Traffic Generator, and errors of other files.
//! `otg/make.py` generated the files in `otg/`.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use wirelane_gen::otg::{Metrics, OtgConfig, parse};
use wirelane_gen::{Rate, Template, signature};
use wirelane_testkit::{tools, tshark};

fn none(_: &Metrics) -> usize {
    0
}

fn fixture(name: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/otg");
    fs::read_to_string(directory.join(name)).unwrap()
}

fn read(name: &str) -> OtgConfig {
    parse(&fixture(name), &none).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Packet `k` of the flow `name`.
fn packet(config: &OtgConfig, name: &str, k: u64) -> Vec<u8> {
    let stream = &config.flows.iter().find(|flow| flow.stream.name == name).unwrap().stream;
    let mut packet = vec![0; stream.lengths.at(k)];
    Template::write(&stream.template, k, &mut packet);
    packet
}

fn described(config: &OtgConfig) -> String {
    config
        .flows
        .iter()
        .map(|flow| {
            let stream = &flow.stream;
            let lengths = (stream.lengths.min(), stream.lengths.max(), stream.lengths.mean());
            let pace = (stream.rate, stream.count, stream.duration, stream.start, stream.burst);
            format!("{}: {} {lengths:?} {pace:?} {:?}\n", stream.name, flow.recipe, flow.metrics)
        })
        .collect()
}

#[test]
fn yaml_and_json_say_the_same() {
    for name in ["quick", "headers", "shapes"] {
        let yaml = described(&read(&format!("{name}.yaml")));
        assert_eq!(yaml, described(&read(&format!("{name}.json"))), "{name}");
    }
}

#[test]
fn a_quick_flow_is_what_the_script_said() {
    let config = read("quick.yaml");
    assert_eq!(config.ports[1].location.as_deref(), Some("veth1"));
    let flow = &config.flows[0];
    assert_eq!((flow.tx, flow.rx.as_slice()), (0, &[1][..]));
    assert_eq!((flow.stream.rate, flow.stream.count), (Rate::Packets(1000.0), Some(100)));
    assert!(flow.metrics.enable && flow.metrics.loss && flow.metrics.latency);
    let packet = packet(&config, "quick", 0);
    assert_eq!(packet.len(), 60);
    assert_eq!(packet[..14], *b"\x02\0\0\0\0\x0b\x02\0\0\0\0\x0a\x08\0");
    assert_eq!(packet[34..38], [0x13, 0x88, 0x17, 0x70]);
}

#[test]
fn a_signature_finds_room_where_it_is_asked_for() {
    let asked = |metrics: &Metrics| if metrics.enable { signature::LEN } else { 0 };
    let config = parse(&fixture("quick.yaml"), &asked).unwrap();
    assert_eq!(config.flows[0].stream.template.reserved(), signature::LEN);
    let config = parse(&fixture("headers.yaml"), &asked).unwrap();
    assert!(config.flows.iter().all(|flow| flow.stream.template.reserved() == 0));
}

#[test]
fn fields_change_as_the_script_said() {
    let config = read("headers.yaml");
    // 802.1ad outside, 802.1Q inside with a counting identifier; SYN, ACK, PSH+ACK; a number that
    // wraps.
    let first = packet(&config, "tagged", 0);
    assert_eq!(first[12..22], [0x88, 0xa8, 0, 100, 0x81, 0, 0xa0, 200, 8, 0]);
    let flags = |k| packet(&config, "tagged", k)[22 + 20 + 13];
    assert_eq!([flags(0), flags(1), flags(2), flags(3)], [0x02, 0x10, 0x18, 0x02]);
    assert_eq!(packet(&config, "tagged", 2)[22 + 20 + 4..][..4], [0, 0, 0, 0]);
    // The network identifier wraps in its 24 bits, an address counts down.
    let vni = |k| packet(&config, "vxlan", k)[46..49].to_vec();
    assert_eq!([vni(1), vni(2), vni(4)], [vec![0xff; 3], vec![0; 3], vec![0xff, 0xff, 0xfe]]);
    let source = |k| packet(&config, "vxlan", k)[50 + 11];
    assert_eq!([source(0), source(1), source(2), source(3)], [2, 1, 0, 2]);
    let class = packet(&config, "vxlan", 1);
    assert_eq!((class[64], class[65] & 0xf0), (0x6b, 0x90));
    // The bottom label has the bottom-of-stack bit.
    let labels = packet(&config, "labels", 1);
    assert_eq!(labels[14..22], [0x00, 0x3e, 0x80, 64, 0x00, 0x01, 0x21, 64]);
    let octet = |k| packet(&config, "labels", k)[23];
    assert_eq!([octet(0), octet(1)], [0b0010_1000, 0b0100_1000]);
    assert_eq!(packet(&config, "gre", 1)[15], 255);
    assert_eq!(packet(&config, "gre", 0)[34..38], [0x80, 0, 0x86, 0xdd]);
    let options = packet(&config, "options", 0);
    assert_eq!(options[14], 0x48);
    assert_eq!(options[34..44], [0x94, 4, 0, 0, 0x9e, 6, 1, 2, 3, 4]);
    assert_eq!(options[46 + 6..][..2], [0, 0], "a checksum that was given");
    let segments = packet(&config, "segments", 0);
    assert_eq!(segments[54..62], [41, 4, 4, 1, 1, 0, 0, 9]);
    let custom = packet(&config, "custom", 0);
    assert_eq!(custom[12..26], *b"\x88\xb6\x01\x23\x45\x67\x89\xab\xcd\xef\xa5\x5a\xa5\x5a");
}

#[test]
fn sizes_and_paces_are_those_of_the_script() {
    let config = read("shapes.yaml");
    let flow =
        |name: &str| &config.flows.iter().find(|flow| flow.stream.name == name).unwrap().stream;
    let imix = flow("imix");
    assert_eq!((imix.lengths.min(), imix.lengths.max()), (60, 1514));
    assert_eq!(imix.lengths.mean(), (60.0 * 7.0 + 566.0 * 4.0 + 1514.0) / 12.0);
    assert_eq!(imix.duration, Some(2_500_000_000));
    // 10 Mbit/s on the wire.
    let Rate::Packets(rate) = imix.rate else { panic!() };
    assert_eq!((rate * (imix.lengths.mean() + 24.0) * 8.0).round(), 10e6);
    // The shortest sizes of the model's distribution are below the Ethernet minimum, and are
    // raised.
    assert_eq!(flow("standard_imix").lengths.min(), 60);
    assert_eq!(flow("steps").rate, Rate::Share(0.125));
    assert_eq!(flow("steps").lengths.at(1), 62);
    assert_eq!(flow("random").start, 1500);
    let bursts = flow("bursts");
    assert_eq!(bursts.count, Some(48));
    assert_eq!(bursts.burst.map(|burst| (burst.packets, burst.gap)), Some((16, 1_000_000)));
    let payload = |name| packet(&config, name, 0)[42..].to_vec();
    assert_eq!(payload("increment_byte")[255..258], [255, 0, 1]);
    assert_eq!(payload("decrement_byte")[..2], [255, 254]);
    assert_eq!(payload("increment_word")[510..516], [0, 255, 1, 0, 1, 1]);
    assert_eq!(payload("decrement_word")[..4], [255, 255, 255, 254]);
    assert_eq!(payload("pattern")[..5], [0xca, 0xfe, 0, 0, 0]);
}

#[test]
fn the_file_of_the_manual_is_read() {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/send.md");
    let manual = fs::read_to_string(manual).unwrap();
    let (_, file) = manual.split_once("```yaml\n").unwrap();
    let (file, _) = file.split_once("```").unwrap();
    let config = parse(file, &none).unwrap();
    assert_eq!(packet(&config, "web", 1)[23], 6);
    let error = parse(&file.replace("values: [80, 443]", "value: 70000"), &none).unwrap_err();
    assert!(manual.contains(&format!("    flows.yaml: {error}\n")), "{error}");
}

#[test]
fn tshark_reads_the_headers_that_the_script_named() {
    if !tools::require("tshark") {
        return;
    }
    let config = read("headers.yaml");
    let mut file: Vec<u8> = [0xA1B2_3C4D_u32, 4 << 16 | 2, 0, 0, 65_535, 1]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    for (at, flow) in config.flows.iter().enumerate() {
        for k in 0..20 {
            let packet = packet(&config, &flow.stream.name, k);
            let len = packet.len() as u32;
            file.extend([at as u32, k as u32, len, len].iter().flat_map(|word| word.to_le_bytes()));
            file.extend(packet);
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("flows.pcap");
    fs::write(&path, file).unwrap();
    assert_eq!(tshark::check_clean_with_checksums(&path), config.flows.len() as u64 * 20);
    let rows = tshark::tshark_fields(&path, &["frame.protocols"]);
    let seen: Vec<&str> = rows.iter().step_by(20).map(|row| row[0].as_str()).collect();
    assert_eq!(
        seen,
        [
            "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:ip:tcp",
            // The testkit configures tshark to show UDP payloads as data; the bytes are checked
            // above.
            "eth:ethertype:ip:udp:data",
            "eth:ethertype:mpls:ip:icmp:data",
            "eth:ethertype:ip:gre:ipv6:icmpv6:data",
            "eth:ethertype:ip:udp:data",
            "eth:ethertype:ipv6:ipv6.routing:ipv6:tcp:data",
            "eth:ethertype:arp",
            "eth:ethertype:data",
        ]
    );
}

/// Headers of the model that Wirelane does not support: session protocols and other encapsulations.
const OUTSIDE: [&str; 11] = [
    "cfm",
    "ethernetpause",
    "gtpv1",
    "gtpv2",
    "igmpv1",
    "lacp",
    "macsec",
    "pfcpause",
    "ppp",
    "rsvp",
    "snmpv2c",
];

#[test]
fn every_header_of_the_model_is_read_or_named() {
    let text = fixture("every.json");
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let flows = file["flows"].as_array().unwrap().clone();
    let mut refused = Vec::new();
    for flow in &flows {
        file["flows"] = serde_json::json!([flow]);
        let name = flow["name"].as_str().unwrap();
        match parse(&file.to_string(), &none) {
            Ok(config) => assert!(packet(&config, name, 0).len() >= 60, "{name}"),
            Err(error) => {
                let last = flow["packet"].as_array().unwrap().len() - 1;
                assert_eq!(
                    error.place().unwrap().path,
                    format!("flows[0].packet[{last}].{name}"),
                    "{error}"
                );
                assert!(error.message().contains("; supported: custom, ethernet, vlan"), "{error}");
                refused.push(name);
            }
        }
    }
    assert_eq!(flows.len(), 25);
    assert_eq!(refused, OUTSIDE);
}

/// Parses a file with one flow after replacing `from` by `to`.
fn broken(from: &str, to: &str) -> String {
    const FILE: &str = "\
ports:
- name: left
- name: right
flows:
- name: one
  tx_rx: {port: {tx_name: left, rx_names: [right]}}
  packet:
  - choice: ethernet
  - choice: ipv4
    ipv4: {time_to_live: {choice: value, value: 64}}
  - choice: udp
  size: {fixed: 64}
  rate: {pps: 10}
";
    assert!(FILE.contains(from) && parse(FILE, &none).is_ok());
    match parse(&FILE.replace(from, to), &none) {
        Ok(_) => format!("'{to}' is accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn errors_name_the_place_and_what_is_supported() {
    let ttl = "flows[0].packet[1].ipv4.time_to_live";
    for (from, to, error) in [
        ("value: 64", "value: 256", format!("line 10, column 49: {ttl}.value: 256 is out of range: 0 to 255")),
        ("value: 64", "value: x", format!("line 10, column 49: {ttl}.value: 'x' is no whole number from 0 to 255")),
        ("choice: value, value: 64", "choice: auto", format!("line 10, column 26: {ttl}: 'auto' is not supported here; supported: value, values, increment, decrement, random")),
        ("choice: value, value: 64", "value: 1, values: [2]", format!("line 10, column 45: {ttl}.values: given, although the choice is 'value'")),
        ("choice: value, value: 64", "metric_tags: [{name: x}]", format!("line 10, column 40: {ttl}.metric_tags: not supported: figures are per flow; make a flow for each value")),
        ("time_to_live", "ttl", "line 10, column 17: flows[0].packet[1].ipv4.ttl: not supported here; supported: version, header_length, total_length".into()),
        ("choice: udp", "choice: sctp", "line 11, column 13: flows[0].packet[2].choice: 'sctp' is not supported; supported: custom, ethernet".into()),
        ("choice: udp", "choice: ipv4\n  - choice: udp\n    udp: {checksum: {generated: bad}}", "line 13, column 33: flows[0].packet[3].udp.checksum.generated: 'bad' is not supported; supported: good".into()),
        ("choice: udp", "choice: gtpv1", "line 11, column 5: flows[0].packet[2].gtpv1: this header is not supported; supported: custom, ethernet".into()),
        ("left, rx", "middle, rx", "line 6, column 27: flows[0].tx_rx.port.tx_name: no port is called 'middle'; there are: left, right".into()),
        ("pps: 10", "pps: 0", "line 13, column 15: flows[0].rate.pps: 0 is out of range: 1 to".into()),
        ("pps: 10", "percentage: 101", "line 13, column 22: flows[0].rate.percentage: 101 is out of range: 0 to 100".into()),
        ("fixed: 64", "fixed: 63", "line 12, column 17: flows[0].size.fixed: 63 is out of range: 64 to 65535".into()),
        ("name: right", "name: left", "line 3, column 9: ports[1].name: a second 'left'".into()),
        ("flows:", "devices: [{name: d}]\nflows:", "line 4, column 10: devices: emulated devices and their sessions (BGP, ARP, DHCP and others) are not supported; supported: flows between ports".into()),
        ("flows:", "layer1: [{name: x}]\nflows:", "line 4, column 9: layer1: not supported: set the link with ip link".into()),
        ("flows:", "flow:", "line 5, column 3: flow: not supported here; supported: lags".into()),
        ("  size:", "  size: [\n  sice:", "line 13, column 3: not valid YAML: ".into()),
    ] {
        let told = broken(from, to);
        assert!(told.starts_with(&error), "{to}:\n{told}\nand not\n{error}");
    }
}

#[test]
fn lines_end_as_in_yaml() {
    let place = |text: &str| {
        let error = parse(text, &none).unwrap_err();
        let place = error.place().unwrap();
        (place.line, place.column)
    };
    let unix = "ports:\n- name: left\n- name: left\n";
    assert_eq!(place(unix), (3, 9));
    for end in ["\r\n", "\r"] {
        assert_eq!(place(&unix.replace('\n', end)), (3, 9), "{end:?}");
    }
}

#[test]
fn the_client_of_this_machine_writes_what_is_read() {
    let Some(python) = tools::snappi() else {
        return;
    };
    let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("otg");
    fs::create_dir_all(&made).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/otg/make.py");
    let done = Command::new(&python).arg(script).arg(&made).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for name in ["quick.yaml", "quick.json", "headers.yaml", "shapes.json"] {
        let now = fs::read_to_string(made.join(name)).unwrap();
        let now = parse(&now, &none).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(described(&now), described(&read(name)), "{name}");
    }
}

/// The `width` bits of a packet from `bit`.
fn bits(packet: &[u8], bit: usize, width: usize) -> u128 {
    let one = |bit: usize| packet[bit / 8] >> (7 - bit % 8) & 1;
    (bit..bit + width).fold(0, |value, bit| value << 1 | u128::from(one(bit)))
}

proptest! {
    /// Values of all patterns are at the position of their field, and counters wrap at its width.
    #[test]
    fn fields_hold_what_their_pattern_says(
        field in 0..6usize,
        start: u32, step: u32, count in 1u64..70_000, list in prop::collection::vec(any::<u32>(), 1..5),
        pattern in 0..4usize, k in 0u64..200_000,
    ) {
        let (header, name, bit, width) = [
            (1, "id", 4, 12), (1, "priority", 0, 3), (2, "identification", 32, 16),
            (2, "time_to_live", 64, 8), (3, "src_port", 0, 16), (3, "dst_port", 16, 16),
        ][field];
        let max = (1u64 << width) - 1;
        let (start, step) = (u64::from(start) & max, u64::from(step) & max);
        let list: Vec<u64> = list.iter().map(|value| u64::from(*value) & max).collect();
        let (json, due) = match pattern {
            0 => (serde_json::json!({"value": start}), start),
            1 => (serde_json::json!({"values": list}), list[(k % list.len() as u64) as usize]),
            2 => (serde_json::json!({"increment": {"start": start, "step": step, "count": count}}),
                (start + step * (k % count)) & max),
            _ => (serde_json::json!({"decrement": {"start": start, "step": step, "count": count}}),
                start.wrapping_sub(step * (k % count)) & max),
        };
        let mut packet: Vec<_> = ["ethernet", "vlan", "ipv4", "udp"]
            .map(|name| serde_json::json!({"choice": name, name: {}})).into();
        let kind = packet[header]["choice"].as_str().unwrap().to_owned();
        packet[header][&kind][name] = json;
        let file = serde_json::json!({
            "ports": [{"name": "p"}],
            "flows": [{"name": "f", "tx_rx": {"port": {"tx_name": "p"}}, "packet": packet}],
        });
        let config = parse(&file.to_string(), &none).unwrap();
        let offset = [0, 14, 18, 38][header] * 8 + bit;
        prop_assert_eq!(bits(&packet_of(&config, k), offset, width), u128::from(due));
    }

    /// A damaged file is refused with a position, or is still valid.
    #[test]
    fn damaged_files_are_refused_in_one_line(
        from in 0..100_000usize, length in 0..40usize, with in "[-a-z0-9:{}\\[\\]&*'\" \n]{0,12}",
    ) {
        let mut text = fixture("headers.yaml");
        let from = from % text.len();
        let to = (from + length).min(text.len());
        text.replace_range(from..to, &with);
        match parse(&text, &none) {
            Ok(config) => drop(packet_of(&config, 1)),
            Err(error) => {
                prop_assert_eq!(error.to_string().lines().count(), 1);
                prop_assert!(error.place().unwrap().line <= text.lines().count() + 1, "{}", error);
            }
        }
    }
}

fn packet_of(config: &OtgConfig, k: u64) -> Vec<u8> {
    packet(config, &config.flows[0].stream.name, k)
}
