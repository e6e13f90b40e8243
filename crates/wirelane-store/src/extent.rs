//! The header of an extent: it precedes every run of blocks in a segment.
//!
//! A segment starts with a *prelude*: a section header block and the interface description blocks
//! of its lane, and a header (`prelude.rs`). Extents follow. Prelude and extents each start at a
//! multiple of [`EXTENT_ALIGNMENT`], as direct I/O requires:
//!
//! ```text
//!  plain        header block │ enhanced packet blocks, interface statistics blocks │ padding block
//!  compressed   skippable frame with the header │ one frame of lz4 or zstd │ skippable frame
//! ```
//!
//! Header and padding of a plain segment are pcapng blocks of types that are reserved for local use
//! (the most significant bit is set); every reader skips them. In a compressed segment they are
//! skippable frames (RFC 8878 section 3.1.2, and the lz4 frame format), which every decompressor
//! skips; the prelude is a separate frame before them.

use crc32fast::hash;

/// Where prelude and extents start: at multiples of this many bytes, the largest logical block of
/// today's disks.
pub const EXTENT_ALIGNMENT: usize = 4096;
/// The most bytes of an extent on disk, header and padding included.
pub const EXTENT_SIZE: usize = 1 << 20;

/// The block type of an extent header in a plain segment: local use, then "WLX".
const HEADER_BLOCK: u32 = 0x8057_4C58;
/// The block type of padding in a plain segment: local use, then "WLP".
const PADDING_BLOCK: u32 = 0x8057_4C50;
/// The block type around bytes that were damaged when a segment was mended: local use, then "WLD".
const DAMAGE_BLOCK: u32 = 0x8057_4C44;
/// Skippable frames: an extent header, padding, and damage.
const HEADER_FRAME: u32 = 0x184D_2A57;
const PADDING_FRAME: u32 = 0x184D_2A50;
const DAMAGE_FRAME: u32 = 0x184D_2A5D;
/// The first bytes of the body; the last byte is the version of the format.
const MAGIC: [u8; 4] = *b"WLX\x01";

/// The fields of an extent's header. On disk: 64 bytes, little-endian, with a checksum of the
/// header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtentHeader {
    /// The random number of the segment that it belongs to.
    pub segment: u64,
    /// Its number in the segment, from 0.
    pub number: u32,
    /// Packets in it.
    pub packets: u32,
    /// Bytes after the header: blocks, or the compressed frame. Padding is not counted.
    pub payload: u32,
    /// Bytes of the blocks before compression; the same as `payload` in a plain segment.
    pub plain: u32,
    /// Time of the oldest packet, in nanoseconds since the epoch; `u64::MAX` without packets.
    pub oldest: u64,
    /// Time of the newest packet; 0 without packets.
    pub newest: u64,
    /// CRC-32 (ISO-HDLC, as in gzip) of the payload.
    pub checksum: u32,
}

impl ExtentHeader {
    /// The number that the header of a prelude has.
    pub const PRELUDE: u32 = u32::MAX;
    /// Bytes of the body.
    pub const BODY: usize = 64;
    /// Bytes on disk: the body in a pcapng block, or in a skippable frame.
    pub const PLAIN_LEN: usize = Self::BODY + 12;
    /// As [`ExtentHeader::PLAIN_LEN`], for a compressed segment.
    pub const COMPRESSED_LEN: usize = Self::BODY + 8;

    /// Bytes of a header on disk.
    #[must_use]
    pub fn disk_len(compressed: bool) -> usize {
        if compressed { Self::COMPRESSED_LEN } else { Self::PLAIN_LEN }
    }

    /// Bytes of the whole extent on disk: header, payload, padding.
    #[must_use]
    pub fn extent_len(&self, compressed: bool) -> usize {
        let used = Self::disk_len(compressed) + self.payload as usize;
        used + padding_len(used, compressed)
    }

    /// The header in the disk format.
    #[must_use]
    pub fn encode(&self, compressed: bool) -> Vec<u8> {
        envelope(&self.encode_body(), HEADER_BLOCK, HEADER_FRAME, compressed)
    }

    /// The body alone.
    pub(crate) fn encode_body(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(Self::BODY);
        body.extend_from_slice(&MAGIC);
        body.extend_from_slice(&[0; 4]); // its checksum
        body.extend_from_slice(&self.segment.to_le_bytes());
        for word in [self.number, self.packets, self.payload, self.plain] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&self.oldest.to_le_bytes());
        body.extend_from_slice(&self.newest.to_le_bytes());
        body.extend_from_slice(&self.checksum.to_le_bytes());
        body.resize(Self::BODY, 0);
        let own = hash(&body).to_le_bytes();
        body[4..8].copy_from_slice(&own);
        body
    }

    /// Reads a header from the start of `bytes`; `None` if it is missing or damaged.
    #[must_use]
    pub fn decode(bytes: &[u8], compressed: bool) -> Option<Self> {
        let words: [u32; 2] = if compressed {
            [HEADER_FRAME.to_le(), (Self::BODY as u32).to_le()]
        } else {
            [HEADER_BLOCK, Self::PLAIN_LEN as u32]
        };
        let start = words.map(u32::to_ne_bytes).concat();
        Self::decode_body(bytes.strip_prefix(&start[..])?)
    }

    /// Reads the body alone from the start of `bytes`.
    pub(crate) fn decode_body(bytes: &[u8]) -> Option<Self> {
        let mut body = *bytes.first_chunk::<{ Self::BODY }>()?;
        let word =
            |at: usize| u32::from_le_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
        let long = |at: usize| u64::from(word(at + 4)) << 32 | u64::from(word(at));
        let own = word(4);
        let header = Self {
            segment: long(8),
            number: word(16),
            packets: word(20),
            payload: word(24),
            plain: word(28),
            oldest: long(32),
            newest: long(40),
            checksum: word(48),
        };
        let is_ours = body.starts_with(&MAGIC);
        body[4..8].fill(0);
        // A fuzzer cannot guess checksums.
        (is_ours && (cfg!(fuzzing) || own == hash(&body))).then_some(header)
    }

    /// Whether the payload matches the header's length and checksum.
    #[must_use]
    pub fn matches(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload as usize && (cfg!(fuzzing) || hash(payload) == self.checksum)
    }
}

/// An extent and its position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Offset of its header in the segment.
    pub offset: u64,
    /// Its header.
    pub header: ExtentHeader,
}

/// Bytes of padding after `used` bytes: 0, or at least the size of an empty block or frame.
#[must_use]
pub(crate) fn padding_len(used: usize, compressed: bool) -> usize {
    let least = if compressed { 8 } else { 12 };
    match used.wrapping_neg() % EXTENT_ALIGNMENT {
        0 => 0,
        gap if gap >= least => gap,
        gap => gap + EXTENT_ALIGNMENT,
    }
}

/// Padding of `len` bytes, a length of [`padding_len`].
#[must_use]
pub(crate) fn padding(len: usize, compressed: bool) -> Vec<u8> {
    let around = if compressed { 8 } else { 12 };
    match len.checked_sub(around) {
        Some(body) => envelope(&vec![0; body], PADDING_BLOCK, PADDING_FRAME, compressed),
        None => Vec::new(),
    }
}

/// Fillers, which every reader skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filler {
    /// Never written.
    Padding,
    /// Damaged when the segment was mended.
    Damage,
}

impl Filler {
    fn kind(self, compressed: bool) -> u32 {
        match (self, compressed) {
            (Self::Padding, false) => PADDING_BLOCK,
            (Self::Padding, true) => PADDING_FRAME,
            (Self::Damage, false) => DAMAGE_BLOCK,
            (Self::Damage, true) => DAMAGE_FRAME,
        }
    }

    /// The bytes that make `len` bytes a filler: the first ones, and the last ones.
    pub(crate) fn around(self, len: u32, compressed: bool) -> ([u8; 8], Vec<u8>) {
        let kind = self.kind(compressed);
        let words: [[u8; 4]; 2] = if compressed {
            [kind.to_le_bytes(), len.wrapping_sub(8).to_le_bytes()]
        } else {
            [kind.to_ne_bytes(), len.to_ne_bytes()]
        };
        let mut start = [0; 8];
        start.copy_from_slice(&words.concat());
        let end = if compressed { Vec::new() } else { len.to_ne_bytes().to_vec() };
        (start, end)
    }

    /// The filler of whole pages at the start of `start`, and its length. Its end is not checked.
    pub(crate) fn find(start: &[u8], compressed: bool) -> Option<(Self, u32)> {
        let [a, b, c, d, e, f, g, h] = *start.first_chunk::<8>()?;
        let (kind, len) = ([a, b, c, d], [e, f, g, h]);
        let (kind, len) = if compressed {
            (u32::from_le_bytes(kind), u32::from_le_bytes(len).checked_add(8)?)
        } else {
            (u32::from_ne_bytes(kind), u32::from_ne_bytes(len))
        };
        let is_possible = len as usize <= EXTENT_SIZE
            && (len as usize).is_multiple_of(EXTENT_ALIGNMENT)
            && len > 0;
        let filler =
            [Self::Padding, Self::Damage].into_iter().find(|one| one.kind(compressed) == kind)?;
        is_possible.then_some((filler, len))
    }
}

fn envelope(body: &[u8], block: u32, frame: u32, compressed: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 12);
    if compressed {
        out.extend_from_slice(&frame.to_le_bytes());
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(body);
    } else {
        // Blocks have the machine's byte order, like all blocks of the file.
        let len = (body.len() as u32 + 12).to_ne_bytes();
        out.extend_from_slice(&block.to_ne_bytes());
        out.extend_from_slice(&len);
        out.extend_from_slice(body);
        out.extend_from_slice(&len);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> ExtentHeader {
        ExtentHeader {
            segment: 0x0123_4567_89AB_CDEF,
            number: 7,
            packets: 3,
            payload: 5,
            plain: 300,
            oldest: 1,
            newest: u64::MAX - 1,
            checksum: hash(b"bytes"),
        }
    }

    #[test]
    fn a_header_survives_and_damage_is_seen() {
        for compressed in [false, true] {
            let bytes = header().encode(compressed);
            assert_eq!(bytes.len(), ExtentHeader::disk_len(compressed));
            assert_eq!(ExtentHeader::decode(&bytes, compressed), Some(header()));
            assert_eq!(ExtentHeader::decode(&bytes, !compressed), None);
            // The trailer of a block is not part of the header.
            for bit in 0..(ExtentHeader::COMPRESSED_LEN) * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(ExtentHeader::decode(&damaged, compressed), None, "bit {bit}");
            }
            for len in 0..ExtentHeader::COMPRESSED_LEN {
                assert_eq!(ExtentHeader::decode(&bytes[..len], compressed), None);
            }
        }
        assert!(header().matches(b"bytes") && !header().matches(b"bytez"));
    }

    #[test]
    fn extents_end_at_the_alignment() {
        for compressed in [false, true] {
            for used in (0..3 * EXTENT_ALIGNMENT).step_by(4) {
                let len = padding_len(used, compressed);
                assert_eq!((used + len) % EXTENT_ALIGNMENT, 0);
                assert!(len < EXTENT_ALIGNMENT + 12);
                assert_eq!(padding(len, compressed).len(), len);
            }
        }
    }
}
