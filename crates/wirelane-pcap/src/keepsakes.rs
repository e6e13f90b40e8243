//! Names and secrets: a file needs them before the packets that they explain, and so does every
//! file of a rotation.

use std::collections::HashSet;

use crate::pcapng::Annex;

/// Most bytes that are remembered.
const LIMIT: usize = 32 * 1024 * 1024;

/// Blocks that every file of a capture has, each once, in the order in which they came.
#[derive(Default)]
pub(crate) struct Keepsakes {
    blocks: Vec<Vec<u8>>,
    known: HashSet<Vec<u8>>,
    bytes: usize,
}

impl Keepsakes {
    /// Whether it is remembered.
    pub(crate) fn has(&self, annex: Annex<'_>) -> bool {
        self.known.contains(annex.bytes())
    }

    /// Remembers it; false if there is no room for it.
    pub(crate) fn keep(&mut self, annex: Annex<'_>) -> bool {
        let block = annex.bytes();
        if self.bytes + 2 * block.len() > LIMIT {
            return false;
        }
        self.bytes += 2 * block.len();
        self.blocks.push(block.to_vec());
        self.known.insert(block.to_vec());
        true
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Annex<'_>> {
        self.blocks.iter().filter_map(|block| Annex::new(block))
    }
}
