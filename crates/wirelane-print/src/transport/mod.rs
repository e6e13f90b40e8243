//! Payloads of IP packets, by protocol number.

pub(crate) mod conversations;
mod dns;
mod gre;
mod secured;
mod tcp;
mod tunnels;
mod udp;

use conversations::Conversations;
use wirelane_wire::Protocol;

use crate::layer::{IpPayload, NextLayer, Step};
use crate::line::TextLine;
use crate::network::protocol;
use crate::style::Style;

/// Prints payloads other than IP in IP and control messages.
pub(crate) fn print<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    conversations: &mut Conversations,
    upper: IpPayload<'a>,
) -> Step<'a> {
    match upper.protocol {
        protocol::TCP => tcp::print(line, style, conversations, &upper),
        protocol::UDP => udp::print(line, style, &upper),
        protocol::GRE => gre::print(line, style, upper.bytes),
        protocol::ESP => secured::print_esp(line, upper.bytes),
        protocol::AH => secured::print_ah(line, upper),
        protocol::ETHERNET => Ok(NextLayer::Ethernet(upper.bytes)),
        protocol::NOTHING => {
            line.put("no next header");
            Ok(NextLayer::End)
        }
        protocol::SCTP | protocol::DCCP => {
            upper.print_ports(line)?;
            line.put(protocol::name(upper.protocol).unwrap_or_default());
            line.put(", length ").count(upper.bytes.len());
            Ok(NextLayer::End)
        }
        _ if matches!(Protocol(upper.protocol), Protocol::IPV4 | Protocol::IPV6) => {
            Ok(NextLayer::Ip(upper.bytes))
        }
        other => {
            match protocol::name(other) {
                Some(name) => line.put(name).put(", length "),
                None => line.put("ip-proto-").number(other).put(" "),
            };
            line.count(upper.bytes.len());
            Ok(NextLayer::End)
        }
    }
}
