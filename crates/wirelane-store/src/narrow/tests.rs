use wirelane_filter::op::{Cond, Op, Operand, Width};
use wirelane_filter::{Program, compile};

use super::*;

fn plan(expression: &str, link_type: u16) -> Plan {
    Plan::new(&compile(expression, link_type, 65_535).unwrap())
}

/// The terms depend on the order of libpcap's tests, which is unchanged since 1.0.
#[test]
fn what_the_index_knows_is_asked() {
    // With the outer tag in the bytes.
    const TAG: &str = "(type 0x8100 or type 0x88a8)";
    const HOST: &str = "address 10.0.0.1";
    const PORTS: &str = "(protocol 132 or protocol 6 or protocol 17)";
    for (expression, asked) in [
        ("arp", "type 0x0806"),
        (
            "host 10.0.0.1",
            &format!(
                "(type 0x0800 and {HOST}) or (type 0x0806 and {HOST}) or (type 0x8035 and {HOST}) or \
                 ({TAG} and (type 0x0800 or type 0x0806 or type 0x8035) and {HOST})"
            ),
        ),
        ("ip net 10.128.0.0/9", "type 0x0800 and address 10.128.0.0/9"),
        ("ip[12:4] = 0x0a000001", "type 0x0800 and address 10.0.0.1"),
        ("host 2001:db8::1", "type 0x86dd and address 2001:db8::1"),
        ("net 2001:db8::/36", "type 0x86dd and address 2001:db8::/36"),
        (
            "ip6 host 2001:db8::1 or ip6 host 2001:db8::2 or ip6 host 2001:db9::3",
            "type 0x86dd and (address 2001:db8::1 or address 2001:db8::2 or address 2001:db9::3)",
        ),
        (
            "tcp port 443 and host 10.0.0.1",
            "type 0x0800 and protocol 6 and port 443 and address 10.0.0.1",
        ),
        (
            "portrange 100-200",
            &format!(
                "(type 0x86dd and {PORTS} and port 100-200) or (type 0x0800 and {PORTS} and port 100-200) or \
                 ({TAG} and (type 0x86dd or type 0x0800) and {PORTS} and port 100-200)"
            ),
        ),
        ("icmp", "type 0x0800 and protocol 1"),
        (
            "udp",
            &format!(
                "(type 0x0800 and protocol 17) or (type 0x86dd and protocol 17) or \
                 ({TAG} and (type 0x0800 or type 0x86dd) and protocol 17)"
            ),
        ),
        ("vlan 5", "(type 0x8100 or type 0x88a8 or type 0x9100) and vlan 5"),
        (
            "vlan and ip host 10.0.0.1",
            "(type 0x8100 or type 0x88a8 or type 0x9100) and type 0x0800 and address 10.0.0.1",
        ),
        // Inner headers have no keys, the outer ones do.
        ("mpls and host 1.2.3.4", "type 0x8847"),
        ("pppoes and port 3", "type 0x8864"),
        (
            "geneve and port 3",
            "(type 0x0800 and protocol 17 and port 6081) or \
             (type 0x8100 and (type 0x0800 or type 0x86dd) and protocol 17 and port 6081) or \
             (type 0x88a8 and (type 0x0800 or type 0x86dd) and protocol 17 and port 6081) or \
             (type 0x86dd and protocol 17 and port 6081)",
        ),
        ("tcp[13] & 2 != 0 and dst port 80", "type 0x0800 and protocol 6 and port 80"),
    ] {
        assert_eq!(plan(expression, 1).to_string(), asked, "{expression}");
    }
    for link_type in [101, 113, 276] {
        let asked = "type 0x0800 and protocol 6 and port 443 and address 10.0.0.1";
        // Bytes after the tag of a cooked packet have no keys.
        let asked = match link_type {
            113 => format!("({asked}) or type 0x8100 or type 0x88a8"),
            _ => asked.to_owned(),
        };
        let plan = plan("tcp port 443 and host 10.0.0.1", link_type);
        assert_eq!(plan.to_string(), asked, "link type {link_type}");
    }
}

#[test]
fn what_the_index_does_not_know_asks_nothing() {
    for expression in
        ["", "not port 80", "greater 1000", "ether host 2:0:0:0:0:1", "arp or less 10"]
    {
        assert!(plan(expression, 1).is_all(), "{expression}");
    }
    // 105: IEEE 802.11.
    assert!(plan("host 10.0.0.1", 105).is_all());
}

/// A step of a program: loads, then a comparison with this outcome.
type Step<'a> = (&'a [Op], Cond, u32, bool);

/// A program that accepts packets that pass all steps.
fn chain(steps: &[Step<'_>]) -> Program {
    let len: usize = steps.iter().map(|(ops, ..)| ops.len() + 1).sum();
    let mut ops = Vec::new();
    for (before, cond, k, holds) in steps {
        ops.extend(before.iter().copied());
        let reject = (len - ops.len()) as u8;
        let (jt, jf) = if *holds { (0, reject) } else { (reject, 0) };
        ops.push(Op::Branch { cond: *cond, operand: Operand::K(*k), jt, jf });
    }
    ops.extend([Op::Return(1), Op::Return(0)]);
    Program::new(1, ops.into_iter().map(Op::encode).collect()).unwrap()
}

/// Bytes are a key only after all tests that make them one.
#[test]
fn what_was_not_checked_is_not_asked() {
    const fn half(offset: u32) -> Op {
        Op::LoadAbsolute(Width::Half, offset)
    }
    const fn byte(offset: u32) -> Op {
        Op::LoadAbsolute(Width::Byte, offset)
    }
    const fn word(offset: u32) -> Op {
        Op::LoadAbsolute(Width::Word, offset)
    }
    const fn behind(header: u32, offset: u32) -> [Op; 2] {
        [Op::LoadXHeader(header), Op::LoadIndirect(Width::Half, offset)]
    }
    const V4: Step<'_> = (&[half(12)], Cond::Equal, 0x0800, true);
    const V6: Step<'_> = (&[half(12)], Cond::Equal, 0x86dd, true);
    const TAGGED: Step<'_> = (&[half(12)], Cond::Equal, 0x8100, true);
    const TCP: Step<'_> = (&[byte(23)], Cond::Equal, 6, true);
    const ICMP: Step<'_> = (&[byte(23)], Cond::Equal, 1, true);
    const WHOLE: Step<'_> = (&[half(20)], Cond::Set, 0x1fff, false);
    const PORT: Step<'_> = (&behind(14, 14), Cond::Equal, 443, true);
    for (steps, asked) in [
        (&[V4, TCP, WHOLE, PORT][..], "type 0x0800 and protocol 6 and port 443"),
        // Any fragment may have these bytes at this offset.
        (&[V4, TCP, PORT], "type 0x0800 and protocol 6"),
        (&[V4, TCP, (&[half(20)], Cond::Set, 0x0fff, false), PORT], "type 0x0800 and protocol 6"),
        (&[V4, TCP, (&[half(20)], Cond::Set, 0x1fff, true), PORT], "type 0x0800 and protocol 6"),
        // Another header's length, another place, a protocol without ports, or an unknown one.
        (
            &[V4, TCP, WHOLE, (&behind(18, 14), Cond::Equal, 443, true)],
            "type 0x0800 and protocol 6",
        ),
        (
            &[V4, TCP, WHOLE, (&behind(14, 18), Cond::Equal, 443, true)],
            "type 0x0800 and protocol 6",
        ),
        (&[V4, ICMP, WHOLE, PORT], "type 0x0800 and protocol 1"),
        (&[V4, WHOLE, PORT], "type 0x0800"),
        (&[TCP, WHOLE, PORT], "all"),
        (&[(&[word(26)], Cond::Equal, 1, true)], "all"),
        (&[V6, (&[word(26)], Cond::Equal, 1, true)], "type 0x86dd"),
        (&[V6, (&[half(54)], Cond::Equal, 443, true)], "type 0x86dd"),
        (&[V6, (&[byte(54)], Cond::Equal, 17, true)], "type 0x86dd"),
        (
            &[V6, (&[byte(20)], Cond::Equal, 44, true), (&[byte(54)], Cond::Equal, 17, true)],
            "type 0x86dd and protocol 44 and protocol 17",
        ),
        // The second tag, which may be missing.
        (&[TAGGED, (&[half(18)], Cond::Equal, 5, true)], "type 0x8100"),
        (&[TAGGED, (&[half(14)], Cond::Equal, 0xa005, true)], "type 0x8100 and vlan 5"),
        (&[TAGGED, V4], "none"),
        (&[V4, (&[byte(23)], Cond::Equal, 0x106, true)], "none"),
        // All parts are known, so the flow is.
        (
            &[
                V4,
                TCP,
                WHOLE,
                PORT,
                (&behind(14, 16), Cond::Equal, 80, true),
                (&[word(26)], Cond::Equal, 0x0a00_0001, true),
                (&[word(30)], Cond::Equal, 0x0a00_0002, true),
            ],
            &format!(
                "type 0x0800 and protocol 6 and port 443 and port 80 and address 10.0.0.1 \
                 and flow {:#x} and address 10.0.0.2",
                crate::FlowId::new(4, 6, [0x0a00_0001, 0x0a00_0002], [443, 80]).key()
            ),
        ),
    ] {
        assert_eq!(Plan::new(&chain(steps)).to_string(), asked, "{}", chain(steps));
    }
}

/// A list is looked up address by address, despite its many paths: 200 IPv6 addresses in both
/// directions take 3500 instructions.
#[test]
fn long_lists_are_asked_for_one_by_one() {
    let hosts: Vec<_> = (0..200).map(|i| format!("host 2001:{i:x}:{:x}::{i:x}", i * 3)).collect();
    let plan = plan(&hosts.join(" or "), 1);
    assert!(!plan.is_all());
    let terms = plan.forms.iter().filter_map(|form| match form {
        ConditionForm::Term(term) => Some(term),
        _ => None,
    });
    let (exact, wide): (Vec<&Term>, Vec<&Term>) = terms.partition(|term| term.first == term.last);
    assert!(exact.len() >= 200 && wide.len() < 20, "{} {}", exact.len(), wide.len());
}
