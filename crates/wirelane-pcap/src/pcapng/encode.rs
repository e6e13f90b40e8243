//! The pcapng encoder: blocks into a byte vector.

use super::blocks::*;
use super::options::{put_option, survey};
use crate::record::{Direction, Record, Section, Source, Statistics};

/// Appends a section header block: the start of a file.
pub fn section_header(out: &mut Vec<u8>, section: &Section) {
    let start = begin_block(out, SECTION_HEADER);
    put_u32(out, BYTE_ORDER_MAGIC);
    out.extend_from_slice(&1u16.to_ne_bytes());
    out.extend_from_slice(&0u16.to_ne_bytes());
    out.extend_from_slice(&u64::MAX.to_ne_bytes()); // section length unknown
    put_text(out, SHB_HARDWARE, &section.hardware);
    put_text(out, SHB_OS, &section.os);
    put_text(out, SHB_APPLICATION, &section.application);
    put_options(out, &section.options);
    put_option(out, OPT_END, &[]);
    end_block(out, start);
}

/// Appends an interface description block. The k-th block of a section describes interface k.
pub fn interface(out: &mut Vec<u8>, source: &Source) {
    let start = begin_block(out, INTERFACE_DESCRIPTION);
    out.extend_from_slice(&source.link_type.to_ne_bytes());
    out.extend_from_slice(&0u16.to_ne_bytes());
    put_u32(out, source.snaplen);
    put_text(out, IF_NAME, &source.name);
    put_text(out, IF_DESCRIPTION, &source.describe());
    if let Some(speed) = source.speed {
        put_option(out, IF_SPEED, &speed.to_ne_bytes());
    }
    put_option(out, IF_TSRESOL, &[9]);
    if let Some(filter) = &source.filter {
        // The first byte states the kind of filter: 0 is a filter expression as text.
        let mut value = vec![0];
        value.extend_from_slice(filter.as_bytes());
        put_option(out, IF_FILTER, &value);
    }
    put_text(out, IF_OS, source.os.as_deref().unwrap_or_default());
    if let Some(len) = source.fcs_len {
        put_option(out, IF_FCSLEN, &[len]);
    }
    put_text(out, IF_HARDWARE, source.hardware.as_deref().unwrap_or_default());
    put_options(out, &source.options);
    put_option(out, OPT_END, &[]);
    end_block(out, start);
}

/// Appends an enhanced packet block.
///
/// This is the hot path of capturing: with room in `out` it is one header, one copy and one
/// trailer.
#[inline]
pub fn packet(out: &mut Vec<u8>, record: &Record<'_>) {
    let data = record.data.get(..MAX_PACKET).unwrap_or(record.data);
    let padding = data.len().wrapping_neg() & 3;
    let flags = if record.direction == Direction::Unknown { 0 } else { 12 };
    let len = PACKET_HEADER + data.len() + padding + flags + 4;
    let len_bytes = (len as u32).to_ne_bytes();

    let header = packet_header(record, data.len(), len);
    out.reserve(len);
    out.extend_from_slice(&header);
    out.extend_from_slice(data);
    if flags == 0 {
        // Padding and trailer in one copy of constant size and one cut, instead of a copy of
        // variable size.
        let mut tail = [0; 8];
        if let Some(trailer) = tail.get_mut(padding..padding + 4) {
            trailer.copy_from_slice(&len_bytes);
        }
        out.extend_from_slice(tail.get(..padding + 4).unwrap_or_default());
    } else {
        out.extend_from_slice([0; 3].get(..padding).unwrap_or_default());
        let direction: u32 = if record.direction == Direction::Inbound { 1 } else { 2 };
        put_option(out, EPB_FLAGS, &direction.to_ne_bytes());
        put_option(out, OPT_END, &[]);
        out.extend_from_slice(&len_bytes);
    }
}

/// Appends an enhanced packet block with a comment, which programs show with the packet. The
/// comment adds 12 bytes and its length.
pub fn packet_with_comment(out: &mut Vec<u8>, record: &Record<'_>, comment: &str) {
    packet_with(out, record, comment, &[]);
}

/// Appends an enhanced packet block with encoded options in the byte order of this machine, such as
/// [`PcapngReader::options`](super::PcapngReader::options) returns. Without options it equals
/// [`packet`].
#[inline]
pub fn packet_with_options(out: &mut Vec<u8>, record: &Record<'_>, options: &[u8]) {
    if options.is_empty() {
        packet(out, record);
    } else {
        packet_with(out, record, "", options);
    }
}

#[cold]
fn packet_with(out: &mut Vec<u8>, record: &Record<'_>, comment: &str, options: &[u8]) {
    let found = survey(options);
    let data = record.data.get(..MAX_PACKET).unwrap_or(record.data);
    let start = begin_block(out, ENHANCED_PACKET);
    put_u32(out, record.interface);
    out.extend_from_slice(&timestamp(record.timestamp));
    put_u32(out, data.len() as u32);
    put_u32(out, record.original_len);
    out.extend_from_slice(data);
    out.extend_from_slice([0; 3].get(..data.len().wrapping_neg() & 3).unwrap_or_default());
    match record.direction {
        _ if found.flags.is_some() => {}
        Direction::Unknown => {}
        Direction::Inbound => put_option(out, EPB_FLAGS, &1_u32.to_ne_bytes()),
        Direction::Outbound => put_option(out, EPB_FLAGS, &2_u32.to_ne_bytes()),
    }
    out.extend_from_slice(options.get(..found.len).unwrap_or_default());
    put_text(out, OPT_COMMENT, comment);
    put_option(out, OPT_END, &[]);
    end_block(out, start);
}

/// The largest number of bytes that options add to a packet's block.
pub(crate) fn options_len(options: &[u8]) -> u64 {
    if options.is_empty() { 0 } else { 12 + options.len().next_multiple_of(4) as u64 }
}

/// Writes an enhanced packet block, as [`packet`] or [`packet_with_comment`], to the start of
/// `out`. Returns its length, or `None` if it does not fit.
#[inline]
#[must_use]
pub fn packet_into(out: &mut [u8], record: &Record<'_>, comment: Option<&str>) -> Option<usize> {
    if record.direction != Direction::Unknown || comment.is_some_and(|text| !text.is_empty()) {
        return packet_with_into(out, record, comment.unwrap_or_default(), &[]);
    }
    let data = record.data.get(..MAX_PACKET).unwrap_or(record.data);
    let padding = data.len().wrapping_neg() & 3;
    let len = PACKET_HEADER + data.len() + padding + 4;
    let (header, rest) = out.get_mut(..len)?.split_first_chunk_mut()?;
    *header = packet_header(record, data.len(), len);
    let (body, tail) = rest.split_at_mut_checked(data.len())?;
    body.copy_from_slice(data);
    let (gap, trailer) = tail.split_at_mut_checked(padding)?;
    gap.fill(0);
    trailer.copy_from_slice(&(len as u32).to_ne_bytes());
    Some(len)
}

/// As [`packet_into`], with options as for [`packet_with_options`].
pub fn packet_with_options_into(
    out: &mut [u8],
    record: &Record<'_>,
    options: &[u8],
) -> Option<usize> {
    if options.is_empty() {
        return packet_into(out, record, None);
    }
    packet_with_into(out, record, "", options)
}

#[cold]
fn packet_with_into(
    out: &mut [u8],
    record: &Record<'_>,
    comment: &str,
    options: &[u8],
) -> Option<usize> {
    let more = comment.len() + options.len() + 32;
    let mut block = Vec::with_capacity(PACKET_HEADER + record.data.len() + more);
    packet_with(&mut block, record, comment, options);
    out.get_mut(..block.len())?.copy_from_slice(&block);
    Some(block.len())
}

/// An enhanced packet block of `len` bytes up to its data.
#[inline]
fn packet_header(record: &Record<'_>, data_len: usize, len: usize) -> [u8; PACKET_HEADER] {
    let mut header = [0; PACKET_HEADER];
    let words = [
        ENHANCED_PACKET,
        len as u32,
        record.interface,
        (record.timestamp >> 32) as u32,
        record.timestamp as u32,
        data_len as u32,
        record.original_len,
    ];
    for (bytes, word) in header.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *bytes = word.to_ne_bytes();
    }
    header
}

/// Appends an interface statistics block; unknown counters are left out.
pub fn statistics(out: &mut Vec<u8>, statistics: &Statistics) {
    let start = begin_block(out, INTERFACE_STATISTICS);
    put_u32(out, statistics.interface);
    out.extend_from_slice(&timestamp(statistics.timestamp));
    for (code, time) in [(ISB_START, statistics.start), (ISB_END, statistics.end)] {
        if let Some(time) = time {
            put_option(out, code, &timestamp(time));
        }
    }
    for (code, count) in [
        (ISB_RECEIVED, statistics.received),
        (ISB_DROPPED, statistics.dropped),
        (ISB_FILTER_ACCEPTED, statistics.filter_accepted),
        (ISB_OS_DROPPED, statistics.os_dropped),
        (ISB_DELIVERED, statistics.delivered),
    ] {
        if let Some(count) = count {
            put_option(out, code, &count.to_ne_bytes());
        }
    }
    put_option(out, OPT_END, &[]);
    end_block(out, start);
}

/// For blocks written by this module of which only `len` bytes reached the disk: the length of the
/// whole blocks, and their number of packets.
pub(crate) fn whole_blocks(bytes: &[u8], len: usize) -> (usize, u64) {
    let (mut at, mut packets) = (0, 0);
    while let Some([kind, size]) =
        bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).map(words)
    {
        let next = at + size as usize;
        if next > len || size < BLOCK_OVERHEAD as u32 {
            break;
        }
        packets += u64::from(kind == ENHANCED_PACKET);
        at = next;
    }
    (at, packets)
}

fn words(bytes: &[u8; 8]) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = *bytes;
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

fn begin_block(out: &mut Vec<u8>, kind: u32) -> usize {
    let start = out.len();
    put_u32(out, kind);
    put_u32(out, 0);
    start
}

/// Writes the length of the block that began at `start` into both of its length fields.
fn end_block(out: &mut Vec<u8>, start: usize) {
    let len = ((out.len() - start + 4) as u32).to_ne_bytes();
    out.extend_from_slice(&len);
    if let Some(field) = out.get_mut(start + 4..start + 8) {
        field.copy_from_slice(&len);
    }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_ne_bytes());
}

/// A timestamp in the format's layout: the upper 32 bits first, in either byte order.
fn timestamp(value: u64) -> [u8; 8] {
    let [a, b, c, d] = ((value >> 32) as u32).to_ne_bytes();
    let [e, f, g, h] = (value as u32).to_ne_bytes();
    [a, b, c, d, e, f, g, h]
}

/// Appends the whole options in `options`, without any that does not fit.
fn put_options(out: &mut Vec<u8>, options: &[u8]) {
    out.extend_from_slice(options.get(..survey(options).len).unwrap_or_default());
}

fn put_text(out: &mut Vec<u8>, code: u16, text: &str) {
    if !text.is_empty() {
        put_option(out, code, text.as_bytes());
    }
}
