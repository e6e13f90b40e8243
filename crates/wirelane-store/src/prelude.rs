//! The prelude of a segment: who wrote it, and the interfaces that its packets refer to.
//!
//! ```text
//!  plain        section header, interfaces │ padding block │ header block
//!  compressed   one frame of the same      │ padding frame │ header frame
//! ```
//!
//! The header has the form of an extent's, with [`ExtentHeader::PRELUDE`] as its number. It is the last thing of the
//! prelude, which makes it easy to find: it ends at a multiple of [`EXTENT_ALIGNMENT`]. Its payload is all that stands
//! before it. It holds the segment's random number, which tells the segment's extents from bytes that look like one,
//! for example in a packet of somebody who copies a store over the network.

use crc32fast::hash;

use crate::extent::{EXTENT_ALIGNMENT, ExtentHeader, padding};

/// Most bytes of a prelude on disk: room for some thousand interfaces.
pub(crate) const MAX_PRELUDE: usize = 1 << 20;

/// A prelude as it stands on disk, of blocks that are already compressed if the segment is; `plain` is their length
/// before. `None` if it is too long.
#[must_use]
pub(crate) fn encode(
    blocks: &[u8],
    plain: usize,
    segment: u64,
    compressed: bool,
) -> Option<Vec<u8>> {
    let header_len = ExtentHeader::disk_len(compressed);
    let least = if compressed { 8 } else { 12 };
    let mut len = (blocks.len() + header_len).next_multiple_of(EXTENT_ALIGNMENT);
    let gap = len - header_len - blocks.len();
    if gap != 0 && gap < least {
        len += EXTENT_ALIGNMENT;
    }
    if len > MAX_PRELUDE {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    out.extend_from_slice(blocks);
    out.extend_from_slice(&padding(len - header_len - blocks.len(), compressed));
    let header = ExtentHeader {
        segment,
        number: ExtentHeader::PRELUDE,
        packets: 0,
        payload: out.len() as u32,
        plain: u32::try_from(plain).ok()?,
        oldest: u64::MAX,
        newest: 0,
        checksum: hash(&out),
    };
    out.extend_from_slice(&header.encode(compressed));
    Some(out)
}

/// The header of the prelude that `start`, the start of a segment, begins with, and whether the bytes before it are
/// what was written. `None` if no header is found.
#[must_use]
pub(crate) fn find(start: &[u8], compressed: bool) -> Option<(ExtentHeader, bool)> {
    let header_len = ExtentHeader::disk_len(compressed);
    let ends = (EXTENT_ALIGNMENT..=start.len().min(MAX_PRELUDE)).step_by(EXTENT_ALIGNMENT);
    ends.into_iter().find_map(|end| {
        let at = end - header_len;
        let header = ExtentHeader::decode(start.get(at..end)?, compressed)?;
        let is_prelude = header.number == ExtentHeader::PRELUDE && header.payload as usize == at;
        is_prelude.then(|| (header, header.matches(start.get(..at).unwrap_or_default())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prelude_is_found_and_damage_is_seen() {
        for compressed in [false, true] {
            for len in (0..3 * EXTENT_ALIGNMENT).step_by(4) {
                let blocks = vec![7; len];
                let mut bytes = encode(&blocks, len, 99, compressed).unwrap();
                assert_eq!(bytes.len() % EXTENT_ALIGNMENT, 0);
                assert!(bytes.len() < len + 2 * EXTENT_ALIGNMENT);
                let on_disk = bytes.len();
                bytes.resize(on_disk + 2 * EXTENT_ALIGNMENT, 0);
                let (header, is_whole) = find(&bytes, compressed).unwrap();
                assert_eq!((header.segment, header.plain as usize), (99, len));
                assert!(is_whole);
                assert_eq!(header.payload as usize + ExtentHeader::disk_len(compressed), on_disk);
                assert_eq!(find(&bytes, !compressed), None);
                assert_eq!(find(&bytes[..on_disk - 1], compressed), None);
                bytes[on_disk / 3] ^= 1;
                assert!(find(&bytes, compressed).is_some_and(|(_, is_whole)| !is_whole));
            }
            assert_eq!(encode(&vec![0; MAX_PRELUDE], 1, 1, compressed), None);
            assert_eq!(find(&[], compressed), None);
        }
    }
}
