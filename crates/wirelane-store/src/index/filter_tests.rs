//! Packets that programs accept have the keys that the programs require.

use proptest::strategy::Strategy;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use wirelane_filter::{Interpreter, Packet, compile};

use super::keys;
use super::samples::samples;
use crate::key::Field;

/// A field, and the least and the greatest value.
type Wanted = (Field, u128, u128);

/// Expressions, each with terms. Every packet that the expression accepts has a key of one of them.
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
