//! Tunnels in UDP: VXLAN and Geneve.

use wirelane_wire::EtherType;

use crate::bytes::CapturedBytes;
use crate::layer::{NextLayer, Step};
use crate::line::TextLine;
use crate::network::ethertype;
use crate::style::Style;

const VXLAN_LEN: usize = 8;
const GENEVE_FLAGS: [(u32, &str); 2] = [(0x40, "C"), (0x80, "O")];

pub(super) fn print_vxlan<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    let flags = bytes.u8(0)?;
    line.put("VXLAN, flags [").put(if flags & 8 != 0 { "I" } else { "invalid" });
    line.put("] (0x").hex_bytes(&[flags]).put("), vni ").number(bytes.be24(4)?);
    line.put(if style.verbose > 0 { "\n\t" } else { ": " });
    Ok(NextLayer::Ethernet(bytes.after(VXLAN_LEN)))
}

pub(super) fn print_geneve<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    let [first, flags] = bytes.array(0)?;
    line.put("Geneve");
    if first >> 6 != 0 {
        line.put(" ERROR: unknown-version ").number(first >> 6);
        return Ok(NextLayer::End);
    }
    let kind = bytes.be16(2)?;
    line.put(", Flags [").bits((flags & 0xc0).into(), &GENEVE_FLAGS, "");
    line.put("], vni 0x").hex(bytes.be24(4)?);
    if style.link {
        ethertype::print_name(line.put(", proto "), kind);
    }
    let options = usize::from(first & 0x3f) * 4;
    if options > 0 {
        line.put(", options [").count(options).put(" bytes]");
    }
    line.put(if style.verbose > 0 { "\n\t" } else { ": " });
    let rest = bytes.after(8 + options);
    match EtherType(kind) {
        EtherType::BRIDGED => Ok(NextLayer::Ethernet(rest)),
        _ if ethertype::is_printed(kind) => Ok(NextLayer::Typed(kind, rest)),
        _ => {
            line.put("geneve-proto-0x").hex(kind.into());
            Ok(NextLayer::End)
        }
    }
}
