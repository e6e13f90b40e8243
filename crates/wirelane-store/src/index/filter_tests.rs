//! What programs accept has the keys that they asked for.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use wirelane_filter::{Interpreter, Packet, compile};

use super::keys;
use crate::key::Field;

/// A field, and the least and the greatest value.
type Wanted = (Field, u128, u128);

/// Expressions, and what a packet that they accept has: one of the terms.
const EXPRESSIONS: [(&str, &[Wanted]); 22] = [
    ("arp", &[(Field::EtherType, 0x806, 0x806)]),
    ("ether proto 0x88cc", &[(Field::EtherType, 0x88CC, 0x88CC)]),
    ("vlan 5", &[(Field::Vlan, 5, 5)]),
    ("vlan and vlan 6", &[(Field::Vlan, 6, 6)]),
    ("vlan 5 and arp", &[(Field::EtherType, 0x806, 0x806)]),
    ("icmp", &[(Field::Protocol, 1, 1)]),
    ("proto 17", &[(Field::Protocol, 17, 17)]),
    ("ip6 proto 6", &[(Field::Protocol, 6, 6)]),
    ("vlan and ip6 proto 58", &[(Field::Protocol, 58, 58)]),
    ("host 10.0.0.1", &[(Field::Ipv4, 0x0A00_0001, 0x0A00_0001)]),
    ("arp host 10.0.0.1", &[(Field::Ipv4, 0x0A00_0001, 0x0A00_0001)]),
    ("net 10.0.0.0/15", &[(Field::Ipv4, 0x0A00_0000, 0x0A01_FFFF)]),
    ("vlan and src net 10.0.0.0/8", &[(Field::Ipv4, 0x0A00_0000, 0x0AFF_FFFF)]),
    ("vlan and vlan and dst host 10.0.0.1", &[(Field::Ipv4, 0x0A00_0001, 0x0A00_0001)]),
    ("ip6 host 2001:db8::1", &[(Field::Ipv6, (0x2001_0DB8 << 96) | 1, (0x2001_0DB8 << 96) | 1)]),
    ("ip6 net 2001:db8::/32", &[(Field::Ipv6, 0x2001_0DB8 << 96, (0x2001_0DB9 << 96) - 1)]),
    (
        "vlan and dst net 2001:db8::/40",
        &[(Field::Ipv6, 0x2001_0DB8 << 96, (0x0020_010D_B801 << 88) - 1)],
    ),
    ("port 53", &[(Field::Port, 53, 53)]),
    ("tcp dst port 53", &[(Field::Port, 53, 53)]),
    ("vlan and portrange 50-60", &[(Field::Port, 50, 60)]),
    ("vlan and vlan and sctp src port 53", &[(Field::Port, 53, 53)]),
    ("port 53 or host 10.0.0.1", &[(Field::Port, 53, 53), (Field::Ipv4, 0x0A00_0001, 0x0A00_0001)]),
];

/// A packet of any link type.
#[derive(Clone, Debug)]
struct Sample {
    tags: Vec<u8>,
    ether_type: u16,
    network: Vec<u8>,
    /// Bytes behind which it is cut off.
    cut: usize,
}

impl Sample {
    fn bytes(&self, link_type: u16) -> Vec<u8> {
        let ether_type = self.ether_type.to_be_bytes();
        let link = match link_type {
            1 => [&[0; 12][..], &self.tags, &ether_type].concat(),
            113 => [&[0; 14][..], &ether_type].concat(),
            276 => [&ether_type[..], &[0; 18]].concat(),
            _ => Vec::new(),
        };
        let mut bytes = [link, self.network.clone()].concat();
        bytes.truncate(self.cut);
        bytes
    }
}

/// What looks like what the expressions ask for, often enough.
fn samples() -> impl Strategy<Value = Sample> {
    let byte =
        |likely: &'static [u8]| prop_oneof![9 => prop::sample::select(likely), 1 => any::<u8>()];
    let short =
        |likely: &'static [u16]| prop_oneof![9 => prop::sample::select(likely), 1 => any::<u16>()];
    let tag = (short(&[0x8100, 0x88A8, 0x9100]), short(&[5, 6, 0xF005]));
    let tags = prop::collection::vec(tag, 0..4);
    let kind = short(&[0x800, 0x800, 0x86DD, 0x86DD, 0x806, 0x8035, 0x88CC]);
    let db8 = |last| [&[0x20, 1, 0xD, 0xB8][..], &[0; 11], &[last]].concat();
    let known = vec![vec![10, 0, 0, 1], vec![10, 1, 200, 3], db8(0), db8(1)];
    let address = prop_oneof![
        8 => prop::sample::select(known),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ];
    let address = [address.clone(), address];
    let protocol = byte(&[1, 6, 17, 44, 58, 132]);
    let ports = [short(&[53, 50, 61]), short(&[53, 60])];
    let start = (byte(&[0x45, 0x45, 0x46, 0x40, 0x60]), short(&[0, 0, 0x4000, 1]), protocol);
    let cut = prop_oneof![3 => Just(200), 1 => 0..90_usize];
    (tags, kind, start, address, ports, cut).prop_map(
        |(tags, kind, (first, fragment, protocol), [source, destination], ports, cut)| {
            let tags = tags.iter().flat_map(|(kind, tag)| [kind.to_be_bytes(), tag.to_be_bytes()]);
            let mut network = vec![0; 70];
            network[0] = first;
            network[6..8].copy_from_slice(&fragment.to_be_bytes());
            let (places, len) = match kind {
                0x86DD => ([8, 24], 40),
                0x806 | 0x8035 => ([14, 24], 28),
                _ => ([12, 16], usize::from(first & 15) * 4),
            };
            for (at, address) in places.into_iter().zip([&source, &destination]) {
                network[at..at + address.len()].copy_from_slice(address);
            }
            network[if kind == 0x86DD { 6 } else { 9 }] = protocol;
            let ports = ports.map(u16::to_be_bytes).concat();
            network[len..len + 4].copy_from_slice(&ports);
            // The next header of a fragment.
            if protocol == 44 {
                network[40] = [6, 17, 58][usize::from(ports[1]) % 3];
            }
            Sample { tags: tags.flatten().collect(), ether_type: kind, network, cut }
        },
    )
}

#[test]
fn accepted_packets_have_the_keys() {
    let mut runner = TestRunner::deterministic();
    for (link_type, count) in [(1, 10_000), (101, 2000), (113, 2000), (276, 2000)] {
        let programs = EXPRESSIONS.iter().filter_map(|(expression, terms)| {
            let program = compile(expression, link_type, 65_535).ok()?;
            Some((*expression, Interpreter::new(&program).ok()?, *terms, 0))
        });
        let mut programs: Vec<_> = programs.collect();
        assert!(programs.len() >= 10);
        for _ in 0..count {
            let data = samples().new_tree(&mut runner).unwrap().current().bytes(link_type);
            for (expression, program, terms, accepted) in &mut programs {
                let packet = Packet { data: &data, wire_len: 1500, ..Packet::default() };
                if program.run(&packet) != 0 {
                    *accepted += 1;
                    check(link_type, &data, expression, terms);
                }
            }
        }
        for (expression, _, _, accepted) in programs {
            let is_impossible = link_type == 101 && expression.contains("arp");
            let is_impossible = is_impossible || link_type != 1 && expression.contains("ether");
            assert!(accepted > 2 || is_impossible, "{link_type}: {expression}: {accepted}");
        }
    }
}

fn check(link_type: u16, data: &[u8], expression: &str, terms: &[Wanted]) {
    let mut has_one = false;
    keys(link_type, data, |field, value| {
        let mut terms = terms.iter();
        has_one |= terms.any(|it| it.0 == field && (it.1..=it.2).contains(&value));
    });
    assert!(has_one, "{link_type}: {expression}: {data:02x?}");
}
