//! The table of protocols.

use std::fmt::Write as _;

use crate::protocol::Notation::{Flags, Hex, Ipv4, Ipv6, Mac, Names, Number, Text};
use crate::protocol::Preset::{Absent, Checksum, HeaderLength, Length, Next, Value};
use crate::protocol::{FieldPosition, Id, Notation, Preset, ProtocolField, ProtocolSpec};

/// The protocol of this name.
pub fn named(name: &str) -> Option<&'static ProtocolSpec> {
    PROTOCOLS.iter().find(|protocol| protocol.name == name)
}

/// The protocol of this id.
pub fn of(id: Id) -> &'static ProtocolSpec {
    // Every id has a row, which a test checks.
    PROTOCOLS.iter().find(|protocol| protocol.id == id).unwrap_or(&PROTOCOLS[0])
}

/// The table as text, for `--packet help`.
pub fn help() -> String {
    let mut text = String::new();
    for protocol in PROTOCOLS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<10} {}", protocol.name, protocol.about);
        for field in protocol.fields {
            let _ = writeln!(text, "  {:<12} {}", field.name, describe(field));
        }
    }
    text
}

/// The width, the notation and the default of a field.
pub fn describe(field: &ProtocolField) -> String {
    let mut text = match field.kind {
        Number => format!("{} bits", field.bits),
        Mac => "02:00:00:00:00:01".to_owned(),
        Ipv4 => "10.0.0.1 or 10.0.0.0/24".to_owned(),
        Ipv6 => "2001:db8::1 or 2001:db8::/64".to_owned(),
        Names(names) => {
            let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
            format!("{} bits, or {}", field.bits, names.join(", "))
        }
        Flags(names) => format!("{}, joined by +", names.join(", ")),
        Hex => "hexadecimal digits".to_owned(),
        Text => "text".to_owned(),
    };
    let preset = match field.preset {
        Next(_) => "; computed from the next layer".to_owned(),
        HeaderLength | Length | Checksum => "; computed".to_owned(),
        Absent => "; left out".to_owned(),
        Value(value) => format!("; default {}", crate::notation::constant(field.kind, value)),
    };
    text.push_str(&preset);
    text
}

/// The rows of the table: id, name, bytes without options, description, fields.
macro_rules! protocols {
    ($( $id:ident $name:literal, $length:literal, $about:literal: $fields:expr; )*) => {
        /// All protocols, from the outside in.
        pub const PROTOCOLS: &[ProtocolSpec] = &[$(
            ProtocolSpec { id: Id::$id, name: $name, about: $about, length: $length, fields: $fields },
        )*];
    };
}

protocols! {
    Eth "eth", 14, "Ethernet": &[
        at("dst", 0, 48, Mac, Value(MAC_B)),
        at("src", 48, 48, Mac, Value(MAC_A)),
        at("type", 96, 16, ETHERTYPES, Next(0x88b5)),
    ];
    Vlan "vlan", 4, "VLAN tag (802.1Q); the outer one of two is a service tag (802.1ad)": &[
        at("priority", 0, 3, Number, Value(0)),
        at("dei", 3, 1, Number, Value(0)),
        at("id", 4, 12, Number, Value(1)),
        at("type", 16, 16, ETHERTYPES, Next(0x88b5)),
    ];
    Mpls "mpls", 4, "MPLS label; several are a stack": &[
        at("label", 0, 20, Number, Value(16)),
        at("tc", 20, 3, Number, Value(0)),
        at("bottom", 23, 1, Number, Next(1)),
        at("ttl", 24, 8, Number, Value(64)),
    ];
    Arp "arp", 28, "ARP for IPv4 over Ethernet": &[
        at("hardware", 0, 16, Number, Value(1)),
        at("protocol", 16, 16, ETHERTYPES, Value(0x0800)),
        at("hardware-length", 32, 8, Number, Value(6)),
        at("protocol-length", 40, 8, Number, Value(4)),
        at("op", 48, 16, Names(&[("request", 1), ("reply", 2)]), Value(1)),
        at("sender-mac", 64, 48, Mac, Value(MAC_A)),
        at("sender-ip", 112, 32, Ipv4, Value(IPV4_A)),
        at("target-mac", 144, 48, Mac, Value(0)),
        at("target-ip", 192, 32, Ipv4, Value(IPV4_B)),
    ];
    Ipv4 "ipv4", 20, "IPv4": &[
        at("version", 0, 4, Number, Value(4)),
        at("ihl", 4, 4, Number, HeaderLength),
        at("dscp", 8, 6, Number, Value(0)),
        at("ecn", 14, 2, Number, Value(0)),
        at("length", 16, 16, Number, Length),
        at("id", 32, 16, Number, Value(0)),
        at("reserved", 48, 1, Number, Value(0)),
        at("df", 49, 1, Number, Value(1)),
        at("mf", 50, 1, Number, Value(0)),
        at("offset", 51, 13, Number, Value(0)),
        at("ttl", 64, 8, Number, Value(64)),
        at("protocol", 72, 8, PROTOCOL_NUMBERS, Next(253)),
        at("checksum", 80, 16, Number, Checksum),
        at("src", 96, 32, Ipv4, Value(IPV4_A)),
        at("dst", 128, 32, Ipv4, Value(IPV4_B)),
        optional("options", 0, Hex),
    ];
    Ipv6 "ipv6", 40, "IPv6": &[
        at("version", 0, 4, Number, Value(6)),
        at("dscp", 4, 6, Number, Value(0)),
        at("ecn", 10, 2, Number, Value(0)),
        at("label", 12, 20, Number, Value(0)),
        at("length", 32, 16, Number, Length),
        at("next", 48, 8, PROTOCOL_NUMBERS, Next(253)),
        at("hop-limit", 56, 8, Number, Next(64)),
        at("src", 64, 128, Ipv6, Value(IPV6_A)),
        at("dst", 192, 128, Ipv6, Value(IPV6_B)),
    ];
    HopByHop "hopopts", 2, "IPv6 hop-by-hop options": OPTIONS_HEADER;
    Destination "dstopts", 2, "IPv6 destination options": OPTIONS_HEADER;
    Routing "routing", 4,
        "IPv6 routing header; checksums count with the destination of the IPv6 header": &[
        at("next", 0, 8, PROTOCOL_NUMBERS, Next(253)),
        at("length", 8, 8, Number, HeaderLength),
        at("type", 16, 8, Number, Value(253)),
        at("left", 24, 8, Number, Value(0)),
        optional("data", 0, Hex),
    ];
    Fragment "fragment", 8, "IPv6 fragment header": &[
        at("next", 0, 8, PROTOCOL_NUMBERS, Next(253)),
        at("reserved", 8, 8, Number, Value(0)),
        at("offset", 16, 13, Number, Value(0)),
        at("more", 31, 1, Number, Value(0)),
        at("id", 32, 32, Number, Value(1)),
    ];
    Udp "udp", 8, "UDP; below VXLAN and Geneve over IPv4 it has no checksum unless you set auto": &[
        at("src", 0, 16, Number, Value(49152)),
        at("dst", 16, 16, Number, Next(9)),
        at("length", 32, 16, Number, Length),
        at("checksum", 48, 16, Number, Checksum),
    ];
    Tcp "tcp", 20, "TCP": &[
        at("src", 0, 16, Number, Value(49152)),
        at("dst", 16, 16, Number, Value(9)),
        at("seq", 32, 32, Number, Value(1)),
        at("ack", 64, 32, Number, Value(1)),
        at("data-offset", 96, 4, Number, HeaderLength),
        at("reserved", 100, 3, Number, Value(0)),
        at("flags", 103, 9, Flags(&TCP_FLAGS), Value(0x10)),
        at("window", 112, 16, Number, Value(65535)),
        at("checksum", 128, 16, Number, Checksum),
        at("urgent", 144, 16, Number, Value(0)),
        optional("mss", 16, Number),
        optional("sack", 1, Number),
        optional("tsval", 32, Number),
        optional("tsecr", 32, Number),
        optional("wscale", 8, Number),
        optional("options", 0, Hex),
    ];
    Icmp "icmp", 8, "ICMP; id and seq are those of an echo": &[
        at("type", 0, 8, ICMP_TYPES, Value(8)),
        at("code", 8, 8, Number, Value(0)),
        at("checksum", 16, 16, Number, Checksum),
        at("id", 32, 16, Number, Value(1)),
        at("seq", 48, 16, Number, Value(1)),
    ];
    Icmpv6 "icmpv6", 8, "ICMPv6; id and seq are those of an echo": &[
        at("type", 0, 8, ICMPV6_TYPES, Value(128)),
        at("code", 8, 8, Number, Value(0)),
        at("checksum", 16, 16, Number, Checksum),
        at("id", 32, 16, Number, Value(1)),
        at("seq", 48, 16, Number, Value(1)),
    ];
    Solicitation "ns", 32, "IPv6 neighbour solicitation": &[
        at("type", 0, 8, Number, Value(135)),
        at("code", 8, 8, Number, Value(0)),
        at("checksum", 16, 16, Number, Checksum),
        at("target", 64, 128, Ipv6, Value(IPV6_B)),
        at("option", 192, 8, Number, Value(1)),
        at("option-length", 200, 8, Number, Value(1)),
        at("mac", 208, 48, Mac, Value(MAC_A)),
    ];
    Advertisement "na", 32, "IPv6 neighbour advertisement": &[
        at("type", 0, 8, Number, Value(136)),
        at("code", 8, 8, Number, Value(0)),
        at("checksum", 16, 16, Number, Checksum),
        at("router", 32, 1, Number, Value(0)),
        at("solicited", 33, 1, Number, Value(1)),
        at("override", 34, 1, Number, Value(1)),
        at("target", 64, 128, Ipv6, Value(IPV6_A)),
        at("option", 192, 8, Number, Value(2)),
        at("option-length", 200, 8, Number, Value(1)),
        at("mac", 208, 48, Mac, Value(MAC_A)),
    ];
    Vxlan "vxlan", 8, "VXLAN; an Ethernet frame follows": &[
        at("flags", 0, 8, Number, Value(8)),
        at("vni", 32, 24, Number, Value(1)),
    ];
    Gre "gre", 4, "GRE; eth, ipv4, ipv6 or mpls follows": &[
        at("version", 13, 3, Number, Value(0)),
        at("protocol", 16, 16, ETHERTYPES, Next(0x88b5)),
        optional("checksum", 16, Number),
        optional("key", 32, Number),
        optional("seq", 32, Number),
    ];
    Geneve "geneve", 8, "Geneve; eth, ipv4 or ipv6 follows": &[
        at("version", 0, 2, Number, Value(0)),
        at("option-length", 2, 6, Number, HeaderLength),
        at("oam", 8, 1, Number, Value(0)),
        at("critical", 9, 1, Number, Value(0)),
        at("protocol", 16, 16, ETHERTYPES, Next(0x88b5)),
        at("vni", 32, 24, Number, Value(1)),
        optional("options", 0, Hex),
    ];
    Payload "payload", 0,
        "what follows the headers: text or hex, then fill up to the frame's size": &[
        payload("text", 0, Text, Absent),
        payload("hex", 0, Hex, Absent),
        payload("fill", 9, FILLS, Value(0)),
    ];
}

/// The value of `fill` for bytes that count.
pub const FILL_COUNT: u16 = 256;
/// The value of `fill` for random bytes.
pub const FILL_RANDOM: u16 = 257;

/// Locally administered addresses.
const MAC_A: u128 = 0x0200_0000_0001;
const MAC_B: u128 = 0x0200_0000_0002;
/// RFC 2544 appendix C.2.2: networks for benchmarks.
const IPV4_A: u128 = 0xc612_0001;
const IPV4_B: u128 = 0xc613_0001;
/// RFC 5180 section 8.
const IPV6_A: u128 = 0x2001_0002_0000_0000_0000_0000_0000_0001;
const IPV6_B: u128 = 0x2001_0002_0000_0001_0000_0000_0000_0001;

const ETHERTYPES: Notation = Names(&[
    ("ipv4", 0x0800),
    ("arp", 0x0806),
    ("eth", 0x6558),
    ("vlan", 0x8100),
    ("ipv6", 0x86dd),
    ("mpls", 0x8847),
    ("qinq", 0x88a8),
]);

const PROTOCOL_NUMBERS: Notation = Names(&[
    ("hopopts", 0),
    ("icmp", 1),
    ("ipv4", 4),
    ("tcp", 6),
    ("udp", 17),
    ("ipv6", 41),
    ("routing", 43),
    ("fragment", 44),
    ("gre", 47),
    ("icmpv6", 58),
    ("none", 59),
    ("dstopts", 60),
    ("mpls", 137),
]);

const ICMP_TYPES: Notation =
    Names(&[("echo", 8), ("reply", 0), ("unreachable", 3), ("exceeded", 11)]);
const ICMPV6_TYPES: Notation =
    Names(&[("echo", 128), ("reply", 129), ("unreachable", 1), ("exceeded", 3)]);
const FILLS: Notation = Names(&[("zeros", 0), ("count", FILL_COUNT), ("random", FILL_RANDOM)]);

const TCP_FLAGS: [&str; 9] = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ae"];

const OPTIONS_HEADER: &[ProtocolField] = &[
    at("next", 0, 8, PROTOCOL_NUMBERS, Next(253)),
    at("length", 8, 8, Number, HeaderLength),
    optional("options", 0, Hex),
];

/// A field in the fixed part of the header.
const fn at(
    name: &'static str,
    bit: u16,
    bits: u8,
    kind: Notation,
    preset: Preset,
) -> ProtocolField {
    ProtocolField { name, place: FieldPosition::Bit(bit), bits, kind, preset }
}

/// A field of the payload.
const fn payload(name: &'static str, bits: u8, kind: Notation, preset: Preset) -> ProtocolField {
    ProtocolField { name, place: FieldPosition::Payload, bits, kind, preset }
}

/// A field that is there when it is set.
const fn optional(name: &'static str, bits: u8, kind: Notation) -> ProtocolField {
    ProtocolField { name, place: FieldPosition::Optional, bits, kind, preset: Absent }
}
