//! A field in the format of the index file.

use crc32fast::hash;

use super::format::{BLOCK_LEN, BLOCK_SIZE, FieldBlock, FieldEntry};
use super::sets;
use crate::key::Field;

/// A field in the format of the index file.
pub(super) struct WrittenField {
    field: Field,
    /// Their offsets are relative to the start of `data`.
    blocks: Vec<FieldBlock>,
    data: Vec<u8>,
    keys: u64,
    /// The encoded set of extents with unlisted keys.
    overflow: Vec<u8>,
    /// The current block: its start, its first key, and its last key.
    block: Option<(usize, u128, u128)>,
}

impl WrittenField {
    pub(super) fn new(field: Field, overflow: &[u32]) -> Self {
        let (blocks, mut bytes) = (Vec::new(), Vec::new());
        sets::encode(overflow, &mut bytes);
        Self { field, blocks, data: Vec::new(), keys: 0, overflow: bytes, block: None }
    }

    /// Adds a key that is greater than all before.
    pub(super) fn add(&mut self, key: u128, extents: &[u32]) {
        let (start, first, last) = self.block.unwrap_or((self.data.len(), key, key));
        sets::wide_number(key - last, &mut self.data);
        sets::encode(extents, &mut self.data);
        self.keys += 1;
        self.block = Some((start, first, key));
        if self.data.len() - start >= BLOCK_SIZE {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if let Some((start, first, _)) = self.block.take() {
            let bytes = &self.data[start..];
            let (offset, len) = (start as u64, bytes.len() as u32);
            self.blocks.push(FieldBlock { first, offset, len, checksum: hash(bytes) });
        }
    }

    /// Ends the last block.
    pub(super) fn end(mut self) -> Self {
        self.end_block();
        self
    }

    /// Bytes of all blocks.
    pub(super) fn data(&self) -> &[u8] {
        &self.data
    }

    /// Bytes of the directory.
    pub(super) fn directory_len(&self) -> usize {
        self.blocks.len() * BLOCK_LEN + self.overflow.len()
    }

    /// Appends the directory of a field whose blocks start at `data_at`.
    pub(super) fn write_directory(&self, data_at: u64, file: &mut Vec<u8>) -> FieldEntry {
        let start = file.len();
        for block in &self.blocks {
            FieldBlock { offset: data_at + block.offset, ..*block }.encode(file);
        }
        file.extend_from_slice(&self.overflow);
        FieldEntry {
            field: self.field as u32,
            checksum: hash(&file[start..]),
            directory_at: start as u64,
            directory_len: (file.len() - start) as u64,
            blocks: self.blocks.len() as u64,
            keys: self.keys,
            data_len: self.data.len() as u64,
        }
    }
}
