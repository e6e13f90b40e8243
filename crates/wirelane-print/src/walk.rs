//! Walks from the link layer to the innermost packet.

use wirelane_wire::Protocol;

use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{IpPayload, NextLayer};
use crate::line::TextLine;
use crate::style::Style;
use crate::transport::conversations::Conversations;
use crate::{link, network, transport};

/// The most layers of one packet that are printed. Real packets have four per tunnel.
const MAX_LAYERS: usize = 32;

/// Prints the layers of a packet, one after the other.
pub(crate) fn print(
    line: &mut TextLine<'_>,
    style: &Style,
    conversations: &mut Conversations,
    link_type: u16,
    bytes: CapturedBytes<'_>,
) {
    let mut name = link::short_name(link_type);
    let mut step = link::print(line, style, link_type, bytes);
    for _ in 0..MAX_LAYERS {
        let next = match step {
            Ok(NextLayer::End) => return,
            Ok(next) => next,
            Err(Truncated) => {
                line.put(" [|").put(name).put("]");
                return;
            }
        };
        name = short_name(&next);
        step = match next {
            NextLayer::End => return,
            NextLayer::Ethernet(bytes) => link::ethernet::print(line, style, bytes),
            NextLayer::Llc(bytes) => link::llc::print(line, bytes),
            NextLayer::Typed(kind, bytes) => network::print(line, style, kind, bytes),
            NextLayer::Ip(bytes) => network::print_ip(line, style, bytes),
            NextLayer::Upper(upper) => match network::print_control(line, style, &upper) {
                Some(step) => step,
                None => transport::print(line, style, conversations, upper),
            },
        };
    }
    line.put("…");
}

/// The name in front of the bracket when a header was cut.
fn short_name(next: &NextLayer<'_>) -> &'static str {
    match next {
        NextLayer::End => "",
        NextLayer::Ethernet(_) => "ether",
        NextLayer::Llc(_) => "llc",
        NextLayer::Typed(0x0800, _) | NextLayer::Ip(_) => "ip",
        NextLayer::Typed(0x86dd, _) => "ip6",
        NextLayer::Typed(0x0806, _) => "arp",
        NextLayer::Typed(..) => "packet",
        NextLayer::Upper(IpPayload { protocol, .. }) => match Protocol(*protocol) {
            Protocol::TCP => "tcp",
            Protocol::UDP => "udp",
            Protocol::ICMP => "icmp",
            Protocol::ICMPV6 => "icmp6",
            Protocol::GRE => "gre",
            _ => "ip",
        },
    }
}
