//! Generic routing encapsulation.

use wirelane_wire::EtherType;

use crate::bytes::CapturedBytes;
use crate::layer::{NextLayer, Step};
use crate::line::TextLine;
use crate::network::ethertype;
use crate::style::Style;

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
/// A flag of version 1, which PPTP uses (RFC 2637).
const ACKNOWLEDGMENT: u16 = 0x0080;
const FLAGS: [(u32, &str); 5] = [
    (0x8000, "checksum present"),
    (0x4000, "routing present"),
    (0x2000, "key present"),
    (0x1000, "sequence# present"),
    (0x80, "acknowledgment present"),
];

/// Prints the header of a tunnel.
pub(super) fn print<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    let flags = bytes.be16(0)?;
    let version = flags & 7;
    line.put("GREv").number(version);
    if version > 1 {
        line.put(" ERROR: unknown-version");
        return Ok(NextLayer::End);
    }
    if style.verbose > 0 {
        line.put(", Flags [").bits(flags.into(), &FLAGS, ", ").put("]");
    }
    let kind = bytes.be16(2)?;
    let mut at = 4;
    if version == 0 && flags & (CHECKSUM | ROUTING) != 0 {
        line.put(", off 0x").hex(bytes.be16(at + 2)?.into());
        at += 4;
    }
    if flags & KEY != 0 {
        if version == 1 {
            line.put(", call ").number(bytes.be16(at + 2)?);
        } else {
            line.put(", key=0x").hex(bytes.be32(at)?);
        }
        at += 4;
    }
    if flags & SEQUENCE != 0 {
        line.put(", seq ").number(bytes.be32(at)?);
        at += 4;
    }
    if version == 1 && flags & ACKNOWLEDGMENT != 0 {
        line.put(", ack ").number(bytes.be32(at)?);
        at += 4;
    }
    if style.link {
        ethertype::print_name(line.put(", proto "), kind);
    }
    line.put(", length ").count(bytes.len());
    if flags & ROUTING != 0 && version == 0 {
        line.put(", with routes");
        return Ok(NextLayer::End);
    }
    let rest = bytes.after(at);
    if version == 1 && flags & SEQUENCE == 0 {
        line.put(", no-payload");
        return Ok(NextLayer::End);
    }
    line.put(if style.verbose > 0 { "\n\t" } else { ": " });
    match EtherType(kind) {
        EtherType::BRIDGED => Ok(NextLayer::Ethernet(rest)),
        _ if ethertype::is_printed(kind) => Ok(NextLayer::Typed(kind, rest)),
        _ => {
            line.put("gre-proto-0x").hex(kind.into());
            Ok(NextLayer::End)
        }
    }
}
