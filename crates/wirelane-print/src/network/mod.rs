//! Network-layer headers, by EtherType.

mod arp;
pub(crate) mod ethertype;
mod icmpv4;
mod icmpv6;
mod igmp;
mod ipv4;
mod ipv6;
mod labels;
pub(crate) mod protocol;
mod quoted;

use wirelane_wire::EtherType;

use crate::bytes::CapturedBytes;
use crate::layer::{IpPayload, NextLayer, Step};
use crate::line::TextLine;
use crate::style::Style;

/// Prints the payload of an EtherType.
pub(crate) fn print<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    kind: u16,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    match EtherType(kind) {
        EtherType::IPV4 => ipv4::print(line, style, bytes),
        EtherType::IPV6 => ipv6::print(line, style, bytes),
        EtherType::ARP | ethertype::REVERSE_ARP => arp::print(line, style, bytes),
        ethertype::MPLS | ethertype::MPLS_MULTICAST => labels::print_mpls(line, style, bytes),
        ethertype::PPPOE_DISCOVERY | ethertype::PPPOE_SESSION => labels::print_pppoe(line, bytes),
        EtherType::BRIDGED => Ok(NextLayer::Ethernet(bytes)),
        _ => {
            match ethertype::name(kind) {
                Some(name) => line.put(name),
                None => line.put("ethertype 0x").hex4(kind),
            };
            line.put(", length ").count(bytes.len());
            Ok(NextLayer::End)
        }
    }
}

/// Prints IPv4 or IPv6.
pub(crate) fn print_ip<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    match bytes.u8(0)? >> 4 {
        4 => ipv4::print(line, style, bytes),
        6 => ipv6::print(line, style, bytes),
        version => {
            line.put("unknown ip ").number(version);
            Ok(NextLayer::End)
        }
    }
}

/// Prints ICMP, ICMPv6 and IGMP.
pub(crate) fn print_control<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    upper: &IpPayload<'a>,
) -> Option<Step<'a>> {
    match (upper.protocol, upper.ends.is_v4()) {
        (protocol::ICMP, true) => Some(icmpv4::print(line, style, upper)),
        (protocol::ICMPV6, false) => Some(icmpv6::print(line, style, upper)),
        (protocol::IGMP, true) => Some(igmp::print(line, upper.bytes)),
        _ => None,
    }
}
