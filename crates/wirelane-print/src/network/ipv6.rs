//! IPv6 headers and their extension headers.

use wirelane_wire::Protocol;

use super::protocol;
use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{IpAddresses, IpPayload, NextLayer, Step};
use crate::line::TextLine;
use crate::style::Style;

const LEN: usize = 40;
const JUMBO_PAYLOAD: u8 = 0xc2;

/// Prints the header and the extension headers.
pub(super) fn print<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    let fixed: [u8; LEN] = bytes.array(0)?;
    let fixed = CapturedBytes::new(&fixed, LEN);
    if !style.link {
        line.put("IP6 ");
    }
    let first = fixed.be32(0)?;
    if first >> 28 != 6 {
        line.put("version error: ").number(first >> 28).put(" != 6");
        return Ok(NextLayer::End);
    }
    let stated = usize::from(fixed.be16(4)?);
    let next = fixed.u8(6)?;
    let ends = IpAddresses::V6 { source: fixed.array(8)?, destination: fixed.array(24)? };
    if stated + LEN > bytes.len() {
        line.put("truncated-ip6 - ").count(stated + LEN - bytes.len()).put(" bytes missing!");
    }
    if style.verbose > 0 {
        line.put("(");
        if first & 0x0ff0_0000 != 0 {
            line.put("class 0x").hex_bytes(&[(first >> 20) as u8]).put(", ");
        }
        if first & 0xf_ffff != 0 {
            let [_, high, middle, low] = (first & 0xf_ffff).to_be_bytes();
            line.put("flowlabel 0x").hex((high & 15).into()).hex_bytes(&[middle, low]).put(", ");
        }
        line.put("hlim ").number(fixed.u8(7)?).put(", next-header ");
        line.put(protocol::name(next).unwrap_or("unknown")).put(" (").number(next);
        line.put(") payload length: ").count(stated).put(") ");
    }
    let payload = bytes.after(LEN);
    let len = match stated {
        0 if next == Protocol::HOP_BY_HOP.0 => jumbo_len(payload).unwrap_or(payload.len()),
        0 if next == Protocol::TCP.0 => payload.len(), // above 64 KiB before segmentation (BIG TCP)
        _ => stated,
    };
    let payload = CapturedBytes::new(payload.captured(), len);
    let mut upper =
        IpPayload { protocol: next, ends, named: false, fragment: false, bytes: payload };
    if !protocol::has_ports(next) {
        ends.print(line);
        upper.named = true;
    }
    extensions(line, style, upper)
}

/// The length in the hop-by-hop option of a packet that is too long for the header's field (RFC
/// 2675).
fn jumbo_len(payload: CapturedBytes<'_>) -> Option<usize> {
    let header = payload.first((usize::from(payload.u8(1).ok()?) + 1) * 8);
    let mut at = 2;
    while at < header.len() {
        match header.u8(at).ok()? {
            0 => at += 1,
            JUMBO_PAYLOAD => return usize::try_from(header.be32(at + 2).ok()?).ok(),
            _ => at += 2 + usize::from(header.u8(at + 1).ok()?),
        }
    }
    None
}

fn extensions<'a>(line: &mut TextLine<'_>, style: &Style, mut upper: IpPayload<'a>) -> Step<'a> {
    loop {
        let bytes = upper.bytes;
        let len = match Protocol(upper.protocol) {
            Protocol::HOP_BY_HOP => {
                line.put("HBH ");
                (usize::from(bytes.u8(1)?) + 1) * 8
            }
            Protocol::DESTINATION_OPTIONS => {
                line.put("DSTOPT ");
                (usize::from(bytes.u8(1)?) + 1) * 8
            }
            Protocol::ROUTING => {
                let last = print_routing(line, bytes)?;
                if let (IpAddresses::V6 { destination, .. }, Some(last)) = (&mut upper.ends, last) {
                    *destination = last;
                }
                (usize::from(bytes.u8(1)?) + 1) * 8
            }
            Protocol::FRAGMENT => {
                let offset = bytes.be16(2)?;
                line.put("frag (");
                if style.verbose > 0 {
                    line.put("0x").hex_bytes(bytes.slice(4, 4)?).put(":");
                }
                line.number(offset & 0xfff8).put("|").count(bytes.after(8).len()).put(")");
                if offset & 0xfff8 != 0 {
                    return Ok(NextLayer::End);
                }
                line.put(" ");
                upper.fragment = offset & 1 != 0;
                8
            }
            _ => return Ok(NextLayer::Upper(upper)),
        };
        upper.protocol = bytes.u8(0)?;
        upper.bytes = bytes.after(len);
        if len > bytes.captured().len() {
            return Err(Truncated);
        }
    }
}

/// Prints a routing header. Returns the final destination if the packet has not reached it:
/// checksums cover that address (RFC 8200, section 8.1).
fn print_routing(
    line: &mut TextLine<'_>,
    bytes: CapturedBytes<'_>,
) -> Result<Option<[u8; 16]>, Truncated> {
    let [_, len, kind, left] = bytes.array(0)?;
    line.put("RT6 (len=").number(len).put(", type=").number(kind);
    line.put(if kind == 0 { " [Deprecated]" } else { "" }).put(", segleft=").number(left);
    if matches!(kind, 0 | 2 | 4) {
        for (number, at) in (8..).step_by(16).take(usize::from(len / 2)).enumerate() {
            line.put(", [").count(number).put("]").ipv6(bytes.array(at)?);
        }
    }
    line.put(") ");
    let last = match kind {
        _ if left == 0 || len < 2 => None,
        0 | 2 => Some(8 + (usize::from(len / 2) - 1) * 16),
        // Segments are in reverse order (RFC 8754, section 2).
        4 => Some(8),
        _ => None,
    };
    last.map(|at| bytes.array(at)).transpose()
}
