//! Names and secrets: a file needs them before the packets that use them, and so does every file of
//! a rotation.

use std::collections::HashSet;

use crate::pcapng::MetadataBlock;

/// Most bytes to keep.
const LIMIT: usize = 32 * 1024 * 1024;

/// Blocks that every file of a capture contains once, in order of arrival.
#[derive(Default)]
pub(crate) struct Keepsakes {
    blocks: Vec<Vec<u8>>,
    known: HashSet<Vec<u8>>,
    bytes: usize,
}

impl Keepsakes {
    /// Whether the block is kept.
    pub(crate) fn has(&self, metadata: MetadataBlock<'_>) -> bool {
        self.known.contains(metadata.bytes())
    }

    /// Keeps the block; false if there is no room for it.
    pub(crate) fn keep(&mut self, metadata: MetadataBlock<'_>) -> bool {
        let block = metadata.bytes();
        if self.bytes + 2 * block.len() > LIMIT {
            return false;
        }
        self.bytes += 2 * block.len();
        self.blocks.push(block.to_vec());
        self.known.insert(block.to_vec());
        true
    }

    /// All kept blocks.
    pub(crate) fn iter(&self) -> impl Iterator<Item = MetadataBlock<'_>> {
        self.blocks.iter().filter_map(|block| MetadataBlock::new(block))
    }
}
