//! Walks from the link layer to the innermost packet.

use wirelane_wire::Protocol;

use crate::bytes::{Bytes, Cut};
use crate::layer::{Next, Upper};
use crate::line::Line;
use crate::style::Style;
use crate::transport::conversations::Conversations;
use crate::{link, network, transport};

/// The most layers of one packet that are printed. Real packets have four per tunnel.
const MAX_LAYERS: usize = 32;

/// Prints the layers of a packet, one after the other.
pub(crate) fn print(
    line: &mut Line<'_>,
    style: &Style,
    conversations: &mut Conversations,
    link_type: u16,
    bytes: Bytes<'_>,
) {
    let mut name = link::short_name(link_type);
    let mut step = link::print(line, style, link_type, bytes);
    for _ in 0..MAX_LAYERS {
        let next = match step {
            Ok(Next::End) => return,
            Ok(next) => next,
            Err(Cut) => {
                line.put(" [|").put(name).put("]");
                return;
            }
        };
        name = short_name(&next);
        step = match next {
            Next::End => return,
            Next::Ethernet(bytes) => link::ethernet::print(line, style, bytes),
            Next::Llc(bytes) => link::llc::print(line, bytes),
            Next::Typed(kind, bytes) => network::print(line, style, kind, bytes),
            Next::Ip(bytes) => network::print_ip(line, style, bytes),
            Next::Upper(upper) => match network::print_control(line, style, &upper) {
                Some(step) => step,
                None => transport::print(line, style, conversations, upper),
            },
        };
    }
    line.put("…");
}

/// The name in front of the bracket when a header was cut.
fn short_name(next: &Next<'_>) -> &'static str {
    match next {
        Next::End => "",
        Next::Ethernet(_) => "ether",
        Next::Llc(_) => "llc",
        Next::Typed(0x0800, _) | Next::Ip(_) => "ip",
        Next::Typed(0x86dd, _) => "ip6",
        Next::Typed(0x0806, _) => "arp",
        Next::Typed(..) => "packet",
        Next::Upper(Upper { protocol, .. }) => match Protocol(*protocol) {
            Protocol::TCP => "tcp",
            Protocol::UDP => "udp",
            Protocol::ICMP => "icmp",
            Protocol::ICMPV6 => "icmp6",
            Protocol::GRE => "gre",
            _ => "ip",
        },
    }
}
