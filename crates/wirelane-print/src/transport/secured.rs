//! IPsec: encrypted payloads and authenticated headers.

use crate::bytes::CapturedBytes;
use crate::layer::{IpPayload, NextLayer, Step};
use crate::line::TextLine;

pub(super) fn print_esp<'a>(line: &mut TextLine<'_>, bytes: CapturedBytes<'a>) -> Step<'a> {
    line.put("ESP(spi=0x").hex_bytes(bytes.slice(0, 4)?);
    line.put(",seq=0x").hex(bytes.be32(4)?).put("), length ").count(bytes.len());
    Ok(NextLayer::End)
}

pub(super) fn print_ah<'a>(line: &mut TextLine<'_>, upper: IpPayload<'a>) -> Step<'a> {
    let bytes = upper.bytes;
    let len = (usize::from(bytes.u8(1)?) + 2) * 4;
    line.put("AH(spi=0x").hex_bytes(bytes.slice(4, 4)?).put(",seq=0x").hex(bytes.be32(8)?);
    line.put(",icv=0x").hex_bytes(bytes.slice(12, len.saturating_sub(12))?).put("): ");
    // A header that states no length must still make progress.
    Ok(NextLayer::Upper(IpPayload {
        protocol: bytes.u8(0)?,
        bytes: bytes.after(len.max(12)),
        named: true,
        ..upper
    }))
}
