//! The parts of an index file; `docs/store-format.md` documents them for readers in other
//! languages.
//!
//! All numbers are little-endian.
//!
//! ```text
//!  header       512 bytes: the magic number, the offsets of the parts, a checksum
//!  extents      48 bytes for each extent of the segment
//!  directories  for each field: 32 bytes for each of its blocks, then the overflow set
//!  blocks       for each field: its keys in order, each with the set of its extents
//! ```

use crc32fast::hash;

use crate::extent::{Extent, ExtentHeader};
use crate::key::Field;

pub(super) const MAGIC: [u8; 4] = *b"WLXI";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_LEN: usize = 512;
const FIELDS_AT: usize = 64;
const FIELD_LEN: usize = 48;
/// The most fields in a header.
const MAX_FIELDS: usize = (HEADER_LEN - 4 - FIELDS_AT) / FIELD_LEN;
pub(super) const EXTENT_LEN: usize = 48;
pub(super) const BLOCK_LEN: usize = 32;
/// Bytes of keys and sets after which a block ends.
pub(super) const BLOCK_SIZE: usize = 4096;

/// The header of an index file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IndexHeader {
    /// The random number of the segment.
    pub(super) segment: u64,
    /// Bytes of the whole file.
    pub(super) file_len: u64,
    /// How many extents the segment has.
    pub(super) extents: u32,
    /// Offset of their entries.
    pub(super) extents_at: u64,
    /// CRC-32 of their entries.
    pub(super) extents_checksum: u32,
    pub(super) fields: Vec<FieldEntry>,
}

/// A field's entry in the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldEntry {
    /// The number of the [`Field`].
    pub(super) field: u32,
    /// CRC-32 of the directory.
    pub(super) checksum: u32,
    pub(super) directory_at: u64,
    /// Bytes of the directory.
    pub(super) directory_len: u64,
    pub(super) blocks: u64,
    pub(super) keys: u64,
    /// Bytes of the blocks.
    pub(super) data_len: u64,
}

/// A block in the directory of its field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldBlock {
    /// Its first key.
    pub(super) first: u128,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// CRC-32 of its bytes.
    pub(super) checksum: u32,
}

/// The reason why a file is invalid.
pub(super) type Fault = &'static str;

impl IndexHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.segment.to_le_bytes());
        out.extend_from_slice(&self.file_len.to_le_bytes());
        out.extend_from_slice(&self.extents.to_le_bytes());
        out.extend_from_slice(&(self.fields.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.extents_at.to_le_bytes());
        out.extend_from_slice(&self.extents_checksum.to_le_bytes());
        out.resize(FIELDS_AT, 0);
        for field in &self.fields {
            out.extend_from_slice(&field.field.to_le_bytes());
            out.extend_from_slice(&field.checksum.to_le_bytes());
            let longs =
                [field.directory_at, field.directory_len, field.blocks, field.keys, field.data_len];
            longs.iter().for_each(|long| out.extend_from_slice(&long.to_le_bytes()));
        }
        out.resize(HEADER_LEN - 4, 0);
        out.extend_from_slice(&hash(&out).to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, Fault> {
        if !bytes.starts_with(&MAGIC) {
            return Err("it is not an index of a segment");
        }
        if word(bytes, 4) != VERSION {
            return Err("it has another format version");
        }
        if !is_whole(&bytes[..HEADER_LEN - 4], word(bytes, HEADER_LEN - 4)) {
            return Err("its header is damaged");
        }
        let fields = word(bytes, 28) as usize;
        if fields > MAX_FIELDS {
            return Err("its header is wrong");
        }
        let field = |at: usize| FieldEntry {
            field: word(bytes, at),
            checksum: word(bytes, at + 4),
            directory_at: long(bytes, at + 8),
            directory_len: long(bytes, at + 16),
            blocks: long(bytes, at + 24),
            keys: long(bytes, at + 32),
            data_len: long(bytes, at + 40),
        };
        Ok(Self {
            segment: long(bytes, 8),
            file_len: long(bytes, 16),
            extents: word(bytes, 24),
            extents_at: long(bytes, 32),
            extents_checksum: word(bytes, 40),
            fields: (0..fields).map(|index| field(FIELDS_AT + index * FIELD_LEN)).collect(),
        })
    }

    pub(super) fn field(&self, field: Field) -> Option<&FieldEntry> {
        self.fields.iter().find(|entry| entry.field == field as u32)
    }
}

/// Appends the entry of an extent.
pub(super) fn encode_extent(extent: &Extent, out: &mut Vec<u8>) {
    let header = &extent.header;
    out.extend_from_slice(&extent.offset.to_le_bytes());
    out.extend_from_slice(&header.oldest.to_le_bytes());
    out.extend_from_slice(&header.newest.to_le_bytes());
    let words = [header.packets, header.payload, header.plain, header.checksum, header.number, 0];
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// The extent of this segment, of an entry of [`EXTENT_LEN`] bytes.
pub(super) fn decode_extent(segment: u64, bytes: &[u8]) -> Extent {
    let header = ExtentHeader {
        segment,
        oldest: long(bytes, 8),
        newest: long(bytes, 16),
        packets: word(bytes, 24),
        payload: word(bytes, 28),
        plain: word(bytes, 32),
        checksum: word(bytes, 36),
        number: word(bytes, 40),
    };
    Extent { offset: long(bytes, 0), header }
}

impl FieldBlock {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    /// Of [`BLOCK_LEN`] bytes.
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let first = u128::from(long(bytes, 8)) << 64 | u128::from(long(bytes, 0));
        let (offset, len) = (long(bytes, 16), word(bytes, 24));
        Self { first, offset, len, checksum: word(bytes, 28) }
    }
}

/// Whether bytes match their checksum. A fuzzer seldom finds one, so any bytes match there.
pub(super) fn is_whole(bytes: &[u8], checksum: u32) -> bool {
    cfg!(fuzzing) || hash(bytes) == checksum
}

/// The number at `at`; 0 if `bytes` ends before it.
fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at + 4)) << 32 | u64::from(word(bytes, at))
}
