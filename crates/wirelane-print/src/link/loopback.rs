//! The header of BSD's loopback interfaces: an address family, in host byte order or network byte
//! order.

use wirelane_wire::EtherType;

use crate::bytes::CapturedBytes;
use crate::layer::{NextLayer, Step};
use crate::line::TextLine;
use crate::style::Style;

pub(super) fn print<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    let family = bytes.be32(0)?;
    let family = if family > 0xffff { family.swap_bytes() } else { family };
    let (name, ethertype) = match family {
        2 => ("IPv4", Some(EtherType::IPV4)),
        24 | 28 | 30 => ("IPv6", Some(EtherType::IPV6)),
        7 => ("ISO", None),
        16 => ("Appletalk", None),
        23 => ("IPX", None),
        _ => ("Unknown", None),
    };
    if style.link || ethertype.is_none() {
        line.put("AF ").put(name).put(" (").number(family).put("), length ").count(bytes.len());
    }
    let Some(ethertype) = ethertype else { return Ok(NextLayer::End) };
    if style.link {
        line.put(": ");
    }
    Ok(NextLayer::Typed(ethertype.0, bytes.after(4)))
}
