//! Ethernet headers and VLAN tags.

use wirelane_wire::{EtherType, MacAddr};

use crate::bytes::{CapturedBytes, Truncated};
use crate::layer::{NextLayer, Step};
use crate::line::TextLine;
use crate::network::ethertype;
use crate::style::Style;

/// 802.1Q tags of switches without 802.1ad.
const OLD_TAGS: u16 = 0x9200;

/// Prints a frame's header as requested by `style`, and its tags.
///
/// Without `-e`, prints the header only if the payload is unknown: otherwise the line would be
/// empty.
pub(crate) fn print<'a>(
    line: &mut TextLine<'_>,
    style: &Style,
    bytes: CapturedBytes<'a>,
) -> Step<'a> {
    let tagged = FrameTags::new(bytes)?;
    let header = style.link || !(tagged.is_length || ethertype::is_printed(tagged.last));
    if header {
        line.mac(MacAddr(bytes.array(6)?)).put(" > ").mac(MacAddr(bytes.array(0)?)).put(", ");
    }
    let mut length = Some(bytes.len()).filter(|_| header);
    for at in (12..tagged.end).step_by(4) {
        if header {
            ethertype::print(line, bytes.be16(at)?);
            separate(line, &mut length);
        }
        print_tag(line, bytes.be16(at + 2)?, header);
    }
    let rest = bytes.after(tagged.end + 2);
    if tagged.is_length {
        let payload = rest.first(tagged.last.into());
        if header {
            line.put("802.3");
            separate(line, &mut length.map(|_| payload.len()));
        }
        return Ok(NextLayer::Llc(payload));
    }
    if header {
        ethertype::print(line, tagged.last);
        if !ethertype::is_printed(tagged.last) {
            if let Some(length) = length {
                line.put(", length ").count(length);
            }
            return Ok(NextLayer::End);
        }
        separate(line, &mut length);
    }
    Ok(NextLayer::Typed(tagged.last, rest))
}

/// Bytes before the network layer.
pub(super) fn header_len(bytes: CapturedBytes<'_>) -> Result<usize, Truncated> {
    let tags = FrameTags::new(bytes)?;
    let llc = if tags.is_length { super::llc::header_len(bytes.after(tags.end + 2))? } else { 0 };
    Ok(tags.end + 2 + llc)
}

/// The tags of a frame.
struct FrameTags {
    /// Offset of the last type or length.
    end: usize,
    last: u16,
    is_length: bool,
}

impl FrameTags {
    fn new(bytes: CapturedBytes<'_>) -> Result<Self, Truncated> {
        let mut end = 12;
        loop {
            let last = bytes.be16(end)?;
            if !EtherType(last).is_vlan() && last != OLD_TAGS {
                return Ok(Self { end, last, is_length: EtherType(last).is_length() });
            }
            end += 4;
        }
    }
}

/// Adds the separator after an EtherType; adds the frame's length once.
fn separate(line: &mut TextLine<'_>, length: &mut Option<usize>) {
    match length.take() {
        Some(length) => line.put(", length ").count(length).put(": "),
        None => line.put(", "),
    };
}

/// Adds a tag. Adds its priority if it is not 0, or `always`.
pub(super) fn print_tag(line: &mut TextLine<'_>, control: u16, always: bool) {
    line.put("vlan ").number(control & 0x0fff);
    let priority = control >> 13;
    if priority != 0 || always {
        line.put(", p ").number(priority);
    }
    if control & 0x1000 != 0 {
        line.put(", DEI");
    }
    line.put(", ");
}
