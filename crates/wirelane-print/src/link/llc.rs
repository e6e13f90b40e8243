//! Headers of logical link control (IEEE 802.2) and of the subnetwork access protocol.

use wirelane_wire::EtherType;

use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{NextLayer, Step};
use crate::line::TextLine;
use crate::network::ethertype;

const SNAP: u8 = 0xaa;
/// A control field with both of these bits set is one byte long.
const UNNUMBERED: u8 = 3;

/// Prints the payload of a frame with a length field.
pub(crate) fn print<'a>(line: &mut TextLine<'_>, bytes: CapturedBytes<'a>) -> Step<'a> {
    let [destination, source, control] = bytes.array(0)?;
    // IPX without an LLC header begins with its checksum, which is not used.
    if destination == 0xff && source == 0xff {
        return named(line, "IPX", bytes);
    }
    let rest = bytes.after(header_len(bytes)?);
    match (destination, source) {
        (SNAP, SNAP) if control == UNNUMBERED => snap(line, bytes),
        (0x42, 0x42) => named(line, "STP", rest),
        (0xe0, 0xe0) => named(line, "IPX", rest),
        (0xf0, _) => named(line, "NetBeui", rest),
        (0xfe, 0xfe) => named(line, "OSI", rest),
        (0x06, 0x06) => Ok(NextLayer::Ip(rest)),
        _ => {
            line.put("LLC, dsap 0x")
                .hex_bytes(&[destination])
                .put(", ssap 0x")
                .hex_bytes(&[source]);
            line.put(", ctrl 0x").hex_bytes(&[control]).put(", length ").count(rest.len());
            Ok(NextLayer::End)
        }
    }
}

/// Bytes of the header, including a SNAP header.
pub(super) fn header_len(bytes: CapturedBytes<'_>) -> Result<usize, Truncated> {
    let [destination, source, control] = bytes.array(0)?;
    Ok(match control & UNNUMBERED {
        UNNUMBERED if (destination, source) == (SNAP, SNAP) => 8,
        UNNUMBERED => 3,
        _ => 4,
    })
}

fn snap<'a>(line: &mut TextLine<'_>, bytes: CapturedBytes<'a>) -> Step<'a> {
    let organization = bytes.be24(3)?;
    let kind = bytes.be16(6)?;
    let rest = bytes.after(8);
    match (organization, kind) {
        // Encapsulated Ethernet (RFC 1042), and its form for bridges (802.1H); AppleTalk has a
        // separate organization code.
        (0 | 0xf8 | 0x8_0007, _) if ethertype::is_printed(kind) => Ok(NextLayer::Typed(kind, rest)),
        (0x80c2, 1 | 7) => {
            // The header of RFC 2684 has two bytes of padding only on ATM.
            Ok(NextLayer::Ethernet(rest))
        }
        (0x0c, 0x2000) => named(line, "CDP", rest),
        (0x0c, 0x2003) => named(line, "VTP", rest),
        (0x0c, 0x2004) => named(line, "DTP", rest),
        (0x0c, 0x010b) => named(line, "PVST", rest),
        (0x0c, 0x0111) => named(line, "UDLD", rest),
        _ => {
            line.put("SNAP, oui 0x").hex_bytes(bytes.slice(3, 3)?);
            if organization == 0 && !EtherType(kind).is_length() {
                line.put(", ");
                ethertype::print(line, kind);
            } else {
                line.put(", pid 0x").hex4(kind);
            }
            line.put(", length ").count(rest.len());
            Ok(NextLayer::End)
        }
    }
}

fn named<'a>(line: &mut TextLine<'_>, name: &str, bytes: CapturedBytes<'a>) -> Step<'a> {
    line.put(name).put(", length ").count(bytes.len());
    Ok(NextLayer::End)
}
