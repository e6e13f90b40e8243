//! The two headers of Linux's cooked captures, which replace the link-layer header.

use wirelane_wire::EtherType;

use super::ethernet::print_tag;
use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{NextLayer, Step};
use crate::line::TextLine;
use crate::network::ethertype;
use crate::style::Style;

/// Bytes of the first header.
pub(super) const LEN: usize = 16;
/// Bytes of the second header.
pub(super) const SECOND_LEN: usize = 20;

/// The fields that both headers share.
struct CookedFields<'a> {
    protocol: u16,
    kind: u16,
    address: &'a [u8],
    length: usize,
}

/// Prints a packet of LINKTYPE_LINUX_SLL.
pub(super) fn print<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    let header = CookedFields {
        protocol: bytes.be16(14)?,
        kind: bytes.be16(0)?,
        address: address(bytes, 6, bytes.be16(4)?.into())?,
        length: bytes.len(),
    };
    if style.link || !is_printed(header.protocol) {
        let kind = direction(header.kind);
        line.put("   ".get(kind.len()..).unwrap_or_default()).put(kind).put(" ");
        header.print(line);
    }
    go_on(line, style, header.protocol, bytes.after(LEN))
}

/// Prints a packet of LINKTYPE_LINUX_SLL2.
pub(super) fn print_second<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    let [.., kind, address_len] = bytes.array::<12>(0)?;
    let header = CookedFields {
        protocol: bytes.be16(0)?,
        kind: kind.into(),
        address: address(bytes, 12, address_len.into())?,
        length: bytes.len(),
    };
    // The interface name for this index is known only on the capturing machine.
    let kind = direction(header.kind);
    line.put("if").number(bytes.be32(4)?).put(" ").put(kind);
    line.put("   ".get(kind.len()..).unwrap_or_default()).put(" ");
    if style.link || !is_printed(header.protocol) {
        header.print(line);
    }
    go_on(line, style, header.protocol, bytes.after(SECOND_LEN))
}

impl CookedFields<'_> {
    fn print(&self, line: &mut TextLine<'_>) {
        if self.address.len() == 6 {
            line.link_address(self.address).put(" ");
        }
        match self.protocol {
            1 => _ = line.put("802.3"),
            4 => _ = line.put("802.2"),
            other => ethertype::print(line, other),
        }
        line.put(", length ").count(self.length);
        if is_printed(self.protocol) {
            line.put(": ");
        }
    }
}

fn address(bytes: CapturedBytes<'_>, at: usize, len: usize) -> Result<&[u8], Truncated> {
    Ok(bytes.slice(at, 8)?.get(..len).unwrap_or_default())
}

fn go_on<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    protocol: u16,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    let (mut protocol, mut bytes) = (protocol, bytes);
    while EtherType(protocol).is_vlan() {
        print_tag(line, bytes.be16(0)?, style.link);
        protocol = bytes.be16(2)?;
        bytes = bytes.after(4);
        if EtherType(protocol).is_length() {
            return Ok(NextLayer::Llc(bytes));
        }
        if style.link || !ethertype::is_printed(protocol) {
            ethertype::print(line, protocol);
            line.put(", ");
        }
    }
    match protocol {
        1 => {
            line.put("IPX, length ").count(bytes.len());
            Ok(NextLayer::End)
        }
        4 => Ok(NextLayer::Llc(bytes)),
        _ if ethertype::is_printed(protocol) => Ok(NextLayer::Typed(protocol, bytes)),
        _ => Ok(NextLayer::End),
    }
}

fn is_printed(protocol: u16) -> bool {
    matches!(protocol, 1 | 4) || EtherType(protocol).is_vlan() || ethertype::is_printed(protocol)
}

/// tcpdump's names of the kernel's packet types (`PACKET_HOST` and so on).
fn direction(kind: u16) -> &'static str {
    match kind {
        0 => "In",
        1 => "B",
        2 => "M",
        3 => "P",
        4 => "Out",
        _ => "?",
    }
}
