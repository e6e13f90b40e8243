//! IEEE 802.11, alone and behind the radio metadata of capturing drivers.

use super::inside::Inside;
use crate::ethernet::EtherType;

/// Bytes before the optional parts: frame control, duration, three addresses, sequence control.
const LEN: usize = 24;
/// LLC and SNAP (RFC 1042).
const SNAP_LEN: usize = 8;
/// Bytes of a subframe header: both addresses and the length (IEEE 802.11-2020, 9.3.2.2).
const SUBFRAME_LEN: usize = 14;

/// Bytes of the Prism header, which an AVS header with this magic number may replace.
const PRISM_LEN: usize = 144;
const AVS_MAGIC: [u8; 4] = [0x80, 0x21, 0x10, 0x01];

/// A frame behind a radiotap header (<https://www.radiotap.org>).
pub(super) fn radiotap(data: &[u8]) -> Inside {
    let Some(&[_, _, a, b, ..]) = data.get(..8) else { return Inside::Short };
    let at = usize::from(u16::from_le_bytes([a, b]));
    let is_padded = radiotap_flags(data).is_some_and(|flags| flags & 0x20 != 0);
    frame(data, at.max(8), is_padded)
}

/// The flags field, if present: it follows all presence words and the time, which is aligned to 8
/// bytes.
fn radiotap_flags(data: &[u8]) -> Option<u8> {
    const TIME: u32 = 1;
    const FLAGS: u32 = 2;
    const MORE: u32 = 1 << 31;
    let word = |at: usize| {
        let bytes = data.get(at..at + 4)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    };
    let first = word(4)?;
    let mut at = 4;
    while word(at)? & MORE != 0 {
        at += 4;
    }
    at += 4;
    if first & TIME != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    if first & FLAGS != 0 { data.get(at).copied() } else { None }
}

/// A frame behind a Prism header, or behind an AVS header in its place.
pub(super) fn prism(data: &[u8]) -> Inside {
    match data.get(..4) {
        None => Inside::Short,
        Some(magic) if *magic == AVS_MAGIC => avs(data),
        Some(_) => frame(data, PRISM_LEN, false),
    }
}

/// A frame behind an AVS header.
pub(super) fn avs(data: &[u8]) -> Inside {
    match data.get(4..8) {
        Some(&[0, 0, a, b]) => frame(data, usize::from(u16::from_be_bytes([a, b])).max(8), false),
        Some(_) | None => Inside::Short,
    }
}

/// A frame at offset `at`. `is_padded`: its payload is aligned to 4 bytes from there.
pub(super) fn frame(data: &[u8], at: usize, is_padded: bool) -> Inside {
    const DATA: u8 = 2;
    const NOTHING: u8 = 4;
    const QOS: u8 = 8;
    const BETWEEN_STATIONS: u8 = 3;
    const PROTECTED: u8 = 0x40;
    const ORDER: u8 = 0x80;
    let frame = data.get(at..).unwrap_or_default();
    let &[control, flags, ..] = frame else { return Inside::Short };
    let (version, kind, subtype) = (control & 3, control >> 2 & 3, control >> 4);
    if version != 0 || kind != DATA || subtype & NOTHING != 0 {
        return Inside::Control;
    }
    let Some(&[fragment, _]) = frame.get(LEN - 2..LEN) else { return Inside::Short };
    if flags & PROTECTED != 0 {
        return Inside::Encrypted;
    }
    // A later fragment lacks the header of its packet.
    if fragment & 0x0f != 0 {
        return Inside::Control;
    }
    let mut len = LEN;
    if flags & BETWEEN_STATIONS == BETWEEN_STATIONS {
        len += 6;
    }
    let mut has_several = false;
    if subtype & QOS != 0 {
        let Some(quality) = frame.get(len) else { return Inside::Short };
        has_several = quality & 0x80 != 0;
        len += if flags & ORDER != 0 { 6 } else { 2 };
    }
    if is_padded {
        len = len.next_multiple_of(4);
    }
    if has_several {
        // The first subframe is read.
        len += SUBFRAME_LEN;
    }
    match frame.get(len..len + SNAP_LEN) {
        Some(&[0xaa, 0xaa, 3, 0, 0, 0 | 0xf8, high, low]) => {
            Inside::Network(EtherType(u16::from_be_bytes([high, low])), at + len + SNAP_LEN)
        }
        Some(_) => Inside::Control,
        None => Inside::Short,
    }
}
