//! Link-layer headers, by LINKTYPE_ values of files and interfaces.

mod cooked;
pub(crate) mod ethernet;
pub(crate) mod llc;
mod loopback;
mod names;

use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{NextLayer, Step};
use crate::line::TextLine;
use crate::style::Style;

/// <https://www.tcpdump.org/linktypes.html>
mod linktype {
    pub(super) const NULL: u16 = 0;
    pub(super) const ETHERNET: u16 = 1;
    pub(super) const RAW_BSD: u16 = 12;
    pub(super) const RAW_OPENBSD: u16 = 14;
    pub(super) const RAW: u16 = 101;
    pub(super) const LOOP: u16 = 108;
    pub(super) const LINUX_SLL: u16 = 113;
    pub(super) const IPV4: u16 = 228;
    pub(super) const IPV6: u16 = 229;
    pub(super) const LINUX_SLL2: u16 = 276;
}

/// Prints the link-layer header as requested by `style`.
pub(crate) fn print<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    link_type: u16,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    match link_type {
        linktype::ETHERNET => Ok(NextLayer::Ethernet(bytes)),
        linktype::NULL | linktype::LOOP => loopback::print(line, style, bytes),
        linktype::LINUX_SLL => cooked::print(line, style, bytes),
        linktype::LINUX_SLL2 => cooked::print_second(line, style, bytes),
        linktype::RAW
        | linktype::RAW_BSD
        | linktype::RAW_OPENBSD
        | linktype::IPV4
        | linktype::IPV6 => {
            if style.link {
                line.put("ip: ");
            }
            Ok(NextLayer::Ip(bytes))
        }
        _ => {
            match names::name(link_type) {
                Some(name) => line.put(name),
                None => line.put("link-type ").number(link_type),
            };
            line.put(", length ").count(bytes.len());
            Ok(NextLayer::End)
        }
    }
}

/// The name in front of the bracket when a header was cut.
pub(crate) fn short_name(link_type: u16) -> &'static str {
    match link_type {
        linktype::NULL | linktype::LOOP => "null",
        linktype::LINUX_SLL => "sll",
        linktype::LINUX_SLL2 => "sll2",
        _ => "link",
    }
}

/// Bytes before the network layer; 0 if unknown.
pub(crate) fn header_len(link_type: u16, data: &[u8]) -> usize {
    let bytes = CapturedBytes::new(data, data.len());
    let len = match link_type {
        linktype::ETHERNET => ethernet::header_len(bytes),
        linktype::NULL | linktype::LOOP => Ok(4),
        linktype::LINUX_SLL => Ok(cooked::LEN),
        linktype::LINUX_SLL2 => Ok(cooked::SECOND_LEN),
        _ => Ok(0),
    };
    match len {
        Ok(len) => len.min(data.len()),
        Err(Truncated) => data.len(),
    }
}
