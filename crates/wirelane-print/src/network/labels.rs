//! Headers before IP: MPLS labels and PPPoE sessions.

use wirelane_wire::EtherType;

use crate::bytes::CapturedBytes;
use crate::layer::{NextLayer, Step};
use crate::line::TextLine;
use crate::style::Style;

const LAST_LABEL: u32 = 0x100;

/// Prints the labels. The first bits of the payload determine its type.
pub(super) fn print_mpls<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    mut bytes: CapturedBytes<'a>,
) -> Step<'a> {
    line.put("MPLS");
    loop {
        let entry = bytes.be32(0)?;
        line.put(" (label ").number(entry >> 12).put(", tc ").number(entry >> 9 & 7);
        if entry & LAST_LABEL != 0 {
            line.put(", [S]");
        }
        line.put(", ttl ").number(entry & 0xff).put(")");
        bytes = bytes.after(4);
        if entry & LAST_LABEL != 0 {
            break;
        }
    }
    match bytes.u8(0).map(|first| first >> 4) {
        Ok(4 | 6) => {
            line.put(if style.verbose > 0 { "\n\t" } else { " " });
            Ok(NextLayer::Ip(bytes))
        }
        _ => {
            line.put(", length ").count(bytes.len());
            Ok(NextLayer::End)
        }
    }
}

pub(super) fn print_pppoe<'a>(line: &mut TextLine<'_>, bytes: CapturedBytes<'a>) -> Step<'a> {
    let code = bytes.u8(1)?;
    let session = bytes.be16(2)?;
    let rest = bytes.after(6).first(bytes.be16(4)?.into());
    match code {
        0 => _ = line.put("PPPoE "),
        0x07 => _ = line.put("PPPoE PADO"),
        0x09 => _ = line.put("PPPoE PADI"),
        0x19 => _ = line.put("PPPoE PADR"),
        0x65 => _ = line.put("PPPoE PADS"),
        0xa7 => _ = line.put("PPPoE PADT"),
        _ => _ = line.put("PPPoE PAD-").hex(code.into()),
    }
    if session != 0 {
        line.put(" [ses 0x").hex(session.into()).put("]");
    }
    let kind = if code == 0 { rest.be16(0)? } else { 0 };
    match kind {
        0x0021 => {
            line.put(" ");
            Ok(NextLayer::Typed(EtherType::IPV4.0, rest.after(2)))
        }
        0x0057 => {
            line.put(" ");
            Ok(NextLayer::Typed(EtherType::IPV6.0, rest.after(2)))
        }
        0 => {
            line.put(", length ").count(rest.len());
            Ok(NextLayer::End)
        }
        _ => {
            line.put(" PPP 0x").hex4(kind).put(", length ").count(rest.len());
            Ok(NextLayer::End)
        }
    }
}
