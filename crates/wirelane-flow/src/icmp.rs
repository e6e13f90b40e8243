//! ICMP messages as ports: both directions of an exchange get one key, as Community ID has it.

use wirelane_wire::Protocol;

/// Two numbers that stand for ports, and whether the message is part of no exchange: then they are
/// its type and its code, and otherwise its type and that of the answer, or of what it answers.
#[inline]
pub(crate) fn ports(protocol: Protocol, kind: u8, code: u8) -> ([u16; 2], bool) {
    match counterpart(protocol, kind) {
        Some(other) => ([kind.into(), other.into()], false),
        None => ([kind.into(), code.into()], true),
    }
}

/// The type of the answer to a message, or of what it answers (RFC 792, 950, 1256; RFC 4443, 4861,
/// 2710, 4620, 6275).
fn counterpart(protocol: Protocol, kind: u8) -> Option<u8> {
    Some(match (protocol, kind) {
        (Protocol::ICMP, 0) => 8,
        (Protocol::ICMP, 8) => 0,
        (Protocol::ICMP, 9) => 10,
        (Protocol::ICMP, 10) => 9,
        (Protocol::ICMP, 13) => 14,
        (Protocol::ICMP, 14) => 13,
        (Protocol::ICMP, 15) => 16,
        (Protocol::ICMP, 16) => 15,
        (Protocol::ICMP, 17) => 18,
        (Protocol::ICMP, 18) => 17,
        (Protocol::ICMPV6, 128) => 129,
        (Protocol::ICMPV6, 129) => 128,
        (Protocol::ICMPV6, 130) => 131,
        (Protocol::ICMPV6, 131) => 130,
        (Protocol::ICMPV6, 133) => 134,
        (Protocol::ICMPV6, 134) => 133,
        (Protocol::ICMPV6, 135) => 136,
        (Protocol::ICMPV6, 136) => 135,
        (Protocol::ICMPV6, 139) => 140,
        (Protocol::ICMPV6, 140) => 139,
        (Protocol::ICMPV6, 144) => 145,
        (Protocol::ICMPV6, 145) => 144,
        _ => return None,
    })
}
