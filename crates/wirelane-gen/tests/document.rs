//! The language reference in the documentation has every layer, field and default.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use wirelane_gen::protocol::{Preset, ProtocolSpec};
use wirelane_gen::{Recipe, table};

fn reference() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/send.md");
    std::fs::read_to_string(root).unwrap()
}

/// The table row that starts with the protocol.
fn row<'a>(text: &'a str, protocol: &ProtocolSpec) -> &'a str {
    let name = format!("`{}`", protocol.name);
    let is_row = |line: &&str| {
        line.starts_with("| `")
            && line.split('|').nth(1).unwrap().split(", ").any(|cell| cell.trim() == name)
    };
    text.lines().find(is_row).unwrap_or_else(|| panic!("docs/send.md: no row for {name}"))
}

#[test]
fn every_layer_and_field_is_in_the_reference() {
    let text = reference();
    for protocol in table::PROTOCOLS {
        let row = row(&text, protocol);
        let mut at = 0;
        for field in protocol.fields {
            let name = field.name;
            let written = match field.preset {
                Preset::Absent => format!("[`{name}`]"),
                Preset::Value(_) => {
                    let text = table::describe(field);
                    let default = text.rsplit_once("default ").unwrap().1;
                    format!("`{name}={default}`")
                }
                _ => format!("*`{name}`*"),
            };
            let found = row[at..].find(&written);
            at +=
                found.unwrap_or_else(|| panic!("{protocol}: no {written} in its order in\n{row}"));
        }
    }
}

#[test]
fn examples_are_packets() {
    let text = reference();
    let lines = text.lines().filter(|line| line.starts_with("wirelane send"));
    let packets: Vec<_> = lines.filter_map(|line| line.split("--packet ").nth(1)).collect();
    assert!(packets.len() >= 4);
    for packet in packets {
        let packet = match packet.strip_prefix('\'') {
            Some(quoted) => quoted.split('\'').next().unwrap(),
            None => packet.split(' ').next().unwrap(),
        };
        packet.parse::<Recipe>().unwrap().compile(0).unwrap();
    }
}

#[test]
fn the_table_prints_itself() {
    let help = table::help();
    for line in
        ["udp        UDP; below VXLAN", "  dst          16 bits; computed from the next layer"]
    {
        assert!(help.contains(line), "{help}");
    }
}
