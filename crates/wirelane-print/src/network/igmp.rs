//! IGMP.

use crate::bytes::CapturedBytes;
use crate::layer::{NextLayer, Step};
use crate::line::TextLine;

pub(super) fn print<'a>(line: &mut TextLine<'_>, bytes: CapturedBytes<'a>) -> Step<'a> {
    let kind = bytes.u8(0)?;
    match kind {
        0x11 => {
            let version = match (bytes.len() >= 12, bytes.u8(1)?) {
                (true, _) => "igmp query v3",
                (false, 0) => "igmp query v1",
                (false, _) => "igmp query v2",
            };
            line.put(version);
            let group = bytes.array(4)?;
            if group != [0; 4] {
                line.put(" [gaddr ").ipv4(group).put("]");
            }
        }
        0x12 => _ = line.put("igmp v1 report ").ipv4(bytes.array(4)?),
        0x16 => _ = line.put("igmp v2 report ").ipv4(bytes.array(4)?),
        0x17 => _ = line.put("igmp leave ").ipv4(bytes.array(4)?),
        0x22 => _ = line.put("igmp v3 report, ").number(bytes.be16(6)?).put(" group record(s)"),
        0x13 => _ = line.put("igmp dvmrp, length ").count(bytes.len()),
        0x14 => _ = line.put("igmp pimv1, length ").count(bytes.len()),
        _ => _ = line.put("igmp-").number(kind),
    }
    Ok(NextLayer::End)
}
