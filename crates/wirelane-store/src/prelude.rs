//! The prelude of a segment: its writer, and the interfaces that its packets refer to.
//!
//! ```text
//!  plain        section header, interfaces │ padding block: header, the same again │ header block
//!  compressed   one frame of these         │ padding frame: header, the same again │ header frame
//! ```
//!
//! Packets are useless without their interfaces, so the prelude has two copies and a checksum. The
//! headers have the form of an extent's, with [`ExtentHeader::PRELUDE`] as their number; their
//! payload is the blocks, or the frame. The prelude ends with the second header, at a multiple of
//! [`EXTENT_ALIGNMENT`], so a reader finds it easily.
//!
//! A header contains the segment's random number. It distinguishes the segment's extents from
//! similar bytes, for example in packets of a store that is copied over the network.

use crc32fast::hash;

use crate::extent::{EXTENT_ALIGNMENT, ExtentHeader, Filler};

/// Most bytes of a prelude on disk: room for some thousand interfaces.
pub(crate) const MAX_PRELUDE: usize = 1 << 20;
/// Bytes in front of the body of a padding block, or frame.
const HEAD: usize = 8;

/// A prelude found in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prelude<'a> {
    /// The segment's random number.
    pub(crate) segment: u64,
    /// The blocks, or the frame that they are compressed to; `None` if both copies are damaged.
    pub(crate) blocks: Option<&'a [u8]>,
    /// Bytes of the blocks before compression.
    pub(crate) plain: usize,
    /// Bytes on disk: where the first extent begins.
    pub(crate) len: usize,
    /// Whether a part of it is damaged.
    pub(crate) is_damaged: bool,
}

/// A prelude in the disk format. `blocks` are already compressed if the segment is; `plain` is
/// their length before compression. `None` if it is too long.
#[must_use]
pub(crate) fn encode(
    blocks: &[u8],
    plain: usize,
    segment: u64,
    compressed: bool,
) -> Option<Vec<u8>> {
    let header_len = ExtentHeader::disk_len(compressed);
    let len = disk_len(blocks.len(), compressed);
    if len > MAX_PRELUDE {
        return None;
    }
    let header = ExtentHeader {
        segment,
        number: ExtentHeader::PRELUDE,
        packets: 0,
        payload: u32::try_from(blocks.len()).ok()?,
        plain: u32::try_from(plain).ok()?,
        oldest: u64::MAX,
        newest: 0,
        checksum: hash(blocks),
    };
    let copy_len = len - header_len - blocks.len();
    let (start, end) = Filler::Padding.around(u32::try_from(copy_len).ok()?, compressed);
    let mut out = Vec::with_capacity(len);
    out.extend_from_slice(blocks);
    out.extend_from_slice(&start);
    out.extend_from_slice(&header.encode_body());
    out.extend_from_slice(blocks);
    out.resize(len - header_len - end.len(), 0);
    out.extend_from_slice(&end);
    out.extend_from_slice(&header.encode(compressed));
    Some(out)
}

/// The prelude at the start of a segment.
#[must_use]
pub(crate) fn find(start: &[u8], compressed: bool) -> Option<Prelude<'_>> {
    let last = last_header(start, compressed);
    let header = last.or_else(|| first_header(start))?;
    let len = header.payload as usize;
    let copy = len + HEAD + ExtentHeader::BODY;
    let first = start.get(..len).filter(|blocks| header.matches(blocks));
    let second = start.get(copy..copy + len).filter(|blocks| header.matches(blocks));
    Some(Prelude {
        segment: header.segment,
        blocks: first.or(second),
        plain: header.plain as usize,
        len: disk_len(len, compressed),
        is_damaged: last.is_none() || first.is_none() || second.is_none(),
    })
}

/// Bytes on disk of a prelude with `blocks` bytes of blocks.
fn disk_len(blocks: usize, compressed: bool) -> usize {
    let around = if compressed { HEAD } else { HEAD + 4 };
    let least = 2 * blocks + around + ExtentHeader::BODY + ExtentHeader::disk_len(compressed);
    least.next_multiple_of(EXTENT_ALIGNMENT)
}

/// The second header, at the end.
fn last_header(start: &[u8], compressed: bool) -> Option<ExtentHeader> {
    let ends = (EXTENT_ALIGNMENT..=start.len().min(MAX_PRELUDE)).step_by(EXTENT_ALIGNMENT);
    ends.into_iter().find_map(|end| {
        let header = start.get(end - ExtentHeader::disk_len(compressed)..end)?;
        ExtentHeader::decode(header, compressed)
            .filter(is_prelude)
            .filter(|header| disk_len(header.payload as usize, compressed) == end)
    })
}

/// The header before the second copy, if the one at the end is damaged.
fn first_header(start: &[u8]) -> Option<ExtentHeader> {
    // The last header follows after the same number of bytes again.
    let most = start.len().min(MAX_PRELUDE / 2);
    (0..most).find_map(|at| {
        ExtentHeader::decode_body(start.get(at + HEAD..)?)
            .filter(is_prelude)
            .filter(|header| header.payload as usize == at)
    })
}

fn is_prelude(header: &ExtentHeader) -> bool {
    header.number == ExtentHeader::PRELUDE && header.payload as usize <= MAX_PRELUDE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 % 251) as u8).collect()
    }

    #[test]
    fn a_prelude_is_found() {
        for compressed in [false, true] {
            for len in (0..2 * EXTENT_ALIGNMENT).step_by(4) {
                let blocks = blocks(len);
                let bytes = encode(&blocks, len + 1, 99, compressed).unwrap();
                assert!(bytes.len().is_multiple_of(EXTENT_ALIGNMENT));
                assert!(bytes.len() < 2 * len + 2 * EXTENT_ALIGNMENT);
                let mut start = bytes.clone();
                start.resize(bytes.len() + 2 * EXTENT_ALIGNMENT, 0);
                let found = Prelude {
                    segment: 99,
                    blocks: Some(&blocks),
                    plain: len + 1,
                    len: bytes.len(),
                    is_damaged: false,
                };
                assert_eq!(find(&start, compressed), Some(found));
                assert_eq!(find(&bytes, compressed), Some(found));
            }
            assert_eq!(encode(&vec![0; MAX_PRELUDE / 2], 1, 1, compressed), None);
            assert_eq!(find(&[], compressed), None);
            assert_eq!(find(&blocks(3 * EXTENT_ALIGNMENT), compressed), None);
        }
    }

    #[test]
    fn one_damaged_place_hides_nothing() {
        for compressed in [false, true] {
            let blocks = blocks(400);
            let bytes = encode(&blocks, 400, 99, compressed).unwrap();
            let whole = find(&bytes, compressed).unwrap();
            let mut seen = 0;
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x10;
                let found = find(&damaged, compressed).unwrap();
                seen += usize::from(found.is_damaged);
                assert_eq!(Prelude { is_damaged: false, ..found }, whole, "{at}");
            }
            // Both copies and the last header; the rest is padding, or a second header.
            assert!(seen >= 2 * blocks.len() + ExtentHeader::COMPRESSED_LEN, "{seen}");
            // With damage in both copies, no blocks are found.
            let mut damaged = bytes.clone();
            damaged[5] ^= 1;
            damaged[400 + HEAD + ExtentHeader::BODY + 5] ^= 1;
            assert_eq!(find(&damaged, compressed).unwrap().blocks, None);
        }
    }

    #[test]
    fn a_plain_prelude_is_pcapng() {
        use wirelane_pcap::{CaptureReader, Section, Source, pcapng};
        let mut blocks = Vec::new();
        pcapng::section_header(&mut blocks, &Section::default());
        pcapng::interface(&mut blocks, &Source::default());
        let bytes = encode(&blocks, blocks.len(), 1, false).unwrap();
        let mut reader = CaptureReader::from_reader(std::io::Cursor::new(bytes), "p").unwrap();
        assert!(!reader.advance().unwrap());
        assert_eq!(reader.interfaces().len(), 1);
    }
}
