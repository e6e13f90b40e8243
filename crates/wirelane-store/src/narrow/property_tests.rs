//! No extent is missed: random packets, cut and damaged, expressions and programs of all kinds.

use std::collections::BTreeSet;
use std::convert::Infallible;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use wirelane_filter::op::{Alu, Cond, Op, Operand, Width};
use wirelane_filter::{Interpreter, Packet, Program, compile};

use super::*;
use crate::index::keys;

/// Extents of packets, and the keys of each.
#[derive(Debug)]
struct Extents {
    packets: Vec<Vec<Vec<u8>>>,
    keys: Vec<BTreeSet<(crate::Field, u128)>>,
}

impl Extents {
    fn new(link_type: u16, packets: Vec<Vec<Vec<u8>>>) -> Self {
        let keys_of = |packets: &Vec<Vec<u8>>| {
            let mut found = BTreeSet::new();
            for packet in packets {
                keys(link_type, packet, |field, value| {
                    found.insert((field, value));
                });
            }
            found
        };
        Self { keys: packets.iter().map(keys_of).collect(), packets }
    }

    fn lookup(&self, term: &Term) -> ExtentSet {
        let mut set = ExtentSet::none(self.keys.len());
        for (extent, keys) in self.keys.iter().enumerate() {
            if keys.range((term.field, term.first)..=(term.field, term.last)).next().is_some() {
                set.insert(extent);
            }
        }
        set
    }

    /// Fails if the plan misses an extent with a packet that the program accepts. Returns how many
    /// extents it leaves out.
    fn check(&self, program: &Program) -> usize {
        let plan = Plan::new(program);
        let interpreter = Interpreter::new(program).unwrap();
        let lookup = |term: &Term| Ok::<_, Infallible>(self.lookup(term));
        let candidates = plan.candidates(self.keys.len(), lookup).unwrap();
        for (extent, packets) in self.packets.iter().enumerate() {
            for data in packets {
                let packet = Packet { data, wire_len: data.len() as u32, ..Packet::default() };
                assert!(
                    interpreter.run(&packet) == 0 || candidates.contains(extent),
                    "missed: {data:02x?}\n{program}\n{plan}"
                );
            }
        }
        self.keys.len() - candidates.count()
    }
}

const V4: [u32; 4] = [0x0a00_0001, 0x0a00_0002, 0x0a80_0001, 0xc000_0201];
const V6: [u128; 4] = [
    0x2001_0db8_0000_0000_0000_0000_0000_0001,
    0x2001_0db8_0000_0000_0000_0000_0000_0002,
    0x2001_0db8_1000_0000_0000_0000_0000_0001,
    0xfe80_0000_0000_0000_0000_0000_0000_0001,
];
const PORTS: [u16; 4] = [53, 80, 443, 6081];

fn transport() -> impl Strategy<Value = Vec<u8>> {
    (select(&PORTS), select(&PORTS), vec(any::<u8>(), 0..30))
        .prop_map(|(from, to, rest)| [&from.to_be_bytes()[..], &to.to_be_bytes(), &rest].concat())
}

fn ipv4() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let fragment = select(&[0u16, 0, 0, 0x4000, 0x2000, 0x0007]);
    let protocol = select(&[6u8, 6, 17, 17, 132, 1, 47]);
    let length = select(&[5u8, 5, 5, 6, 8, 15, 0]);
    (length, fragment, protocol, select(&V4), select(&V4), transport()).prop_map(
        |(length, fragment, protocol, from, to, transport)| {
            let mut packet = vec![0x40 | length, 0, 0, 60, 1, 2];
            packet.extend(fragment.to_be_bytes());
            packet.extend([64, protocol, 0, 0]);
            packet.extend(from.to_be_bytes());
            packet.extend(to.to_be_bytes());
            packet.resize(20.max(4 * usize::from(length)), 1);
            packet.extend(transport);
            (0x0800, packet)
        },
    )
}

fn ipv6() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let next = select(&[6u8, 6, 17, 17, 132, 58, 44, 0]);
    let extension = select(&[6u8, 17, 44]);
    (next, extension, select(&V6), select(&V6), transport()).prop_map(
        |(next, extension, from, to, transport)| {
            let mut packet = vec![0x60, 0, 0, 0, 0, 60, next, 64];
            packet.extend(from.to_be_bytes());
            packet.extend(to.to_be_bytes());
            if [0, 44].contains(&next) {
                packet.extend([extension, 0, 0, 0, 0, 0, 0, 7]);
            }
            packet.extend(transport);
            (0x86dd, packet)
        },
    )
}

fn arp() -> impl Strategy<Value = (u16, Vec<u8>)> {
    (select(&[0x0806u16, 0x8035]), select(&V4), select(&V4)).prop_map(|(kind, from, to)| {
        let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1];
        packet.extend(from.to_be_bytes());
        packet.extend([2, 0, 0, 0, 0, 2]);
        packet.extend(to.to_be_bytes());
        (kind, packet)
    })
}

fn packet(link_type: u16) -> BoxedStrategy<Vec<u8>> {
    let other = vec(any::<u8>(), 0..60).prop_map(|rest| (0x88cc, rest));
    let network = prop_oneof![4 => ipv4(), 4 => ipv6(), 1 => arp(), 1 => other];
    let tag = (select(&[0x8100u16, 0x88a8, 0x9100]), select(&[5u16, 7, 0xa005]));
    let tags = prop_oneof![3 => Just(Vec::new()), 2 => vec(tag, 1..6)];
    let cut = prop_oneof![3 => Just(usize::MAX), 1 => 0..90usize];
    let damage = prop_oneof![3 => Just(None), 1 => (0..70usize, any::<u8>()).prop_map(Some)];
    (network, tags, cut, damage)
        .prop_map(move |((kind, network), tags, cut, damage)| {
            let mut packet = match link_type {
                1 => vec![2; 12],
                113 => vec![0; 14],
                _ => Vec::new(),
            };
            for (kind, identifier) in tags.into_iter().filter(|_| link_type == 1) {
                packet.extend(kind.to_be_bytes());
                packet.extend(identifier.to_be_bytes());
            }
            if link_type != 101 {
                packet.extend(kind.to_be_bytes());
            }
            if link_type == 276 {
                packet.resize(20, 0);
            }
            packet.extend(network);
            packet.truncate(cut);
            if let Some((at, value)) = damage
                && let Some(byte) = packet.get_mut(at)
            {
                *byte = value;
            }
            packet
        })
        .boxed()
}

fn extents(link_type: u16, most: usize) -> impl Strategy<Value = Extents> {
    vec(vec(packet(link_type), 1..4), 1..most)
        .prop_map(move |packets| Extents::new(link_type, packets))
}

/// Expressions; libpcap refuses senseless combinations.
fn expression() -> impl Strategy<Value = String> {
    let direction = select(&["", "src ", "dst ", "src and dst "]);
    let protocol = select(&["", "ip ", "ip6 ", "arp "]);
    let v4 = select(&["10.0.0.1", "10.0.0.2", "10.128.0.1", "192.0.2.1"]);
    let v6 = select(&["2001:db8::1", "2001:db8::2", "2001:db8:1000::1", "fe80::1"]);
    let nets = select(&[
        "10.0.0.0/9",
        "10.0.0.0/31",
        "0.0.0.0/0",
        "2001:db8::/32",
        "2001:db8::/36",
        "2001:db8::/127",
        "::/0",
    ]);
    let port = select(&["port 53", "port 443", "portrange 50-90", "portrange 0-79"]);
    let term = prop_oneof![
        4 => (protocol, direction.clone(), prop_oneof![v4, v6])
            .prop_map(|(protocol, direction, host)| format!("{protocol}{direction}host {host}")),
        2 => (direction.clone(), nets).prop_map(|(direction, net)| format!("{direction}net {net}")),
        4 => (select(&["", "tcp ", "udp ", "sctp "]), direction, port)
            .prop_map(|(protocol, direction, port)| format!("{protocol}{direction}{port}")),
        3 => select(&[
            "vlan", "vlan 5", "vlan 7", "ip", "ip6", "arp", "tcp", "udp", "icmp", "icmp6", "sctp",
            "ip proto 47", "ip6 proto 44", "less 60", "greater 80", "mpls", "pppoes", "geneve",
            "ip[9] = 6", "ip[12:4] & 0xffff0000 = 0x0a000000", "ip[12:4] > 0x0a000001",
            "tcp[0:2] < 100", "udp[2:2] >= 53", "ip6[6] != 17", "ether[12:2] = 0x86dd",
            "ether[12:2] > 0x8000", "ether[14:2] & 0xfff = 5", "ether[16:2] = 0x800",
            "ip[6:2] & 0x1fff = 0", "ip6[24:4] = 0x20010db8", "ether broadcast", "tcp[13] & 2 != 0",
        ]).prop_map(str::to_owned),
    ];
    term.prop_recursive(4, 12, 2, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and ({b})")),
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) or ({b})")),
            1 => inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

/// Numbers for comparisons.
fn number() -> impl Strategy<Value = u32> + Clone {
    select(&[
        0x0800u32,
        0x0800,
        0x86dd,
        0x86dd,
        0x0806,
        0x8100,
        0x88a8,
        6,
        17,
        44,
        5,
        53,
        80,
        443,
        0,
        0x0a00_0001,
        0xc000_0201,
        0x2001_0db8,
        1,
        0x1fff,
        0xfff,
        0xffff,
        0xf0,
        0x40,
        u32::MAX,
    ])
}

/// Programs that libpcap would not generate, with the relevant loads and numbers.
fn program() -> impl Strategy<Value = Program> {
    let offset = select(&[
        12u32, 12, 14, 16, 18, 20, 20, 22, 23, 24, 26, 30, 34, 38, 40, 42, 46, 50, 54, 56, 0, 6, 2,
    ]);
    let width = select(&[Width::Half, Width::Half, Width::Half, Width::Word, Width::Byte]);
    let number = number();
    let cond = select(&[Cond::Equal, Cond::Equal, Cond::Greater, Cond::GreaterEqual, Cond::Set]);
    let plain = prop_oneof![
        8 => (width, offset.clone()).prop_map(|(width, offset)| Op::LoadAbsolute(width, offset)),
        2 => select(&[14u32, 18, 0]).prop_map(Op::LoadXHeader),
        3 => select(&[14u32, 16, 18, 0, 2])
            .prop_map(|offset| Op::LoadIndirect(Width::Half, offset)),
        2 => number.clone().prop_map(|k| Op::Alu(Alu::And, Operand::K(k))),
        1 => number.clone().prop_map(|k| Op::Alu(Alu::Add, Operand::K(k))),
        1 => Just(Op::Tax),
        1 => Just(Op::Txa),
        1 => number.clone().prop_map(Op::LoadXImmediate),
    ];
    let branch = (cond, any::<bool>(), number, 0..4u8, 0..4u8).prop_map(|(cond, x, k, jt, jf)| {
        let operand = if x && k == 0 { Operand::X } else { Operand::K(k) };
        Op::Branch { cond, operand, jt, jf }
    });
    let op = prop_oneof![3 => plain, 3 => branch, 1 => (0..3u32).prop_map(Op::Jump)];
    (vec(op, 1..60), vec(any::<bool>(), 4)).prop_map(|(mut ops, ends)| {
        ops.extend(ends.iter().map(|accept| Op::Return(u32::from(*accept))));
        Program::new(1, ops.into_iter().map(Op::encode).collect()).unwrap()
    })
}

/// A change of a program: position, kind, and a number for it.
type Change = (prop::sample::Index, u8, u32);

/// Removes tests, loads from other offsets, compares with other numbers.
fn change(program: &Program, changes: &[Change]) -> Option<Program> {
    let mut ops = program.ops().to_vec();
    for (at, how, number) in changes {
        let op = at.get_mut(&mut ops);
        *op = match (*op, how) {
            (Op::Branch { cond, operand, jt, .. }, 0) => Op::Branch { cond, operand, jt, jf: jt },
            (Op::Branch { cond, operand, jf, .. }, 1) => Op::Branch { cond, operand, jt: jf, jf },
            (Op::Branch { cond, jt, jf, .. }, 2) => {
                Op::Branch { cond, operand: Operand::K(*number), jt, jf }
            }
            (Op::Branch { operand, jt, jf, .. }, _) => {
                Op::Branch { cond: Cond::GreaterEqual, operand, jt, jf }
            }
            (Op::LoadAbsolute(width, offset), _) => {
                Op::LoadAbsolute(width, offset.wrapping_add(number % 9).wrapping_sub(4))
            }
            (Op::LoadIndirect(width, offset), _) => {
                Op::LoadIndirect(width, offset.wrapping_add(number % 9).wrapping_sub(4))
            }
            (Op::LoadXHeader(offset), _) => Op::LoadXHeader(offset + number % 5),
            (Op::Alu(Alu::And, _), _) => Op::Alu(Alu::And, Operand::K(*number)),
            (other, _) => other,
        };
    }
    Program::new(program.link_type(), ops.into_iter().map(Op::encode).collect()).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn expressions_miss_nothing(
        expression in expression(),
        (link_type, extents) in select(&[1u16, 1, 1, 101, 113, 276])
            .prop_flat_map(|link_type| (Just(link_type), extents(link_type, 16))),
    ) {
        if let Ok(program) = compile(&expression, link_type, 65_535) {
            extents.check(&program);
        }
    }

    #[test]
    fn changed_programs_miss_nothing(
        expression in expression(),
        changes in vec((any::<prop::sample::Index>(), 0..5u8, number()), 1..4),
        extents in extents(1, 24),
    ) {
        if let Ok(program) = compile(&expression, 1, 65_535)
            && let Some(program) = change(&program, &changes)
        {
            extents.check(&program);
        }
    }

    #[test]
    fn programs_miss_nothing(program in program(), extents in extents(1, 16)) {
        extents.check(&program);
    }
}

/// Every expression of the tests of filters.
#[test]
fn the_corpus_misses_nothing() {
    let text = include_str!("../../../wirelane-filter/tests/filter/expressions.txt");
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut draw = |link_type| extents(link_type, 120).new_tree(&mut runner).unwrap().current();
    let mut link_type = 1;
    let mut extents = draw(link_type);
    let mut left_out = 0;
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(link) = line.strip_prefix("[link ") {
            link_type = link.trim_end_matches(']').parse().unwrap();
            extents = draw(link_type);
            continue;
        }
        let program = compile(line.trim_matches('"'), link_type, 65_535).unwrap();
        left_out += extents.check(&program);
    }
    assert!(left_out > 0);
}

/// The number of paths is bounded: a list of IPv6 addresses has one for each prefix.
#[test]
fn the_longest_programs_are_narrowed() {
    let address = |i: u128, last: u128| {
        (0x2000 + i) << 112 | 0x0db8 << 96 | (i * 7) << 64 | last << 32 | (i * 3 + 1)
    };
    let hosts: Vec<_> = (0..300)
        .map(|i| format!("dst host {}", std::net::Ipv6Addr::from_bits(address(i, 0))))
        .collect();
    let program = compile(&hosts.join(" or "), 1, 65_535).unwrap();
    assert!(program.instructions().len() > 1000, "{}", program.instructions().len());
    // Every other extent has an address of the list.
    let packet = |i: u128| {
        let mut packet = vec![2; 12];
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 59, 64]);
        packet.extend(1u128.to_be_bytes());
        packet.extend(address(i, i % 2).to_be_bytes());
        packet
    };
    let extents = Extents::new(1, (0..300).map(|i| vec![packet(i)]).collect());
    assert_eq!(extents.check(&program), 150);
}
