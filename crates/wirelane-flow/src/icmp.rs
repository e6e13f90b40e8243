//! Maps ICMP messages to ports, so that both directions of an exchange have the same key, as in
//! Community ID.

use wirelane_wire::Protocol;

/// The ports of a message, and whether it is one-way. The ports of a one-way message are its type
/// and code. The ports of a request or answer are its type and the type of the counterpart.
#[inline]
pub(crate) fn ports(protocol: Protocol, kind: u8, code: u8) -> ([u16; 2], bool) {
    match counterpart(protocol, kind) {
        Some(other) => ([kind.into(), other.into()], false),
        None => ([kind.into(), code.into()], true),
    }
}

/// The type of the answer to a request, or of the request to an answer (RFC 792, 950, 1256; RFC
/// 4443, 4861, 2710, 4620, 6275).
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
