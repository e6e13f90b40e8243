//! A buffer filled by the receiving thread, which the threads of a lane pass on.

use std::sync::Arc;

use wirelane_pcap::Source;

use super::status::Counts;
use crate::disk::Buffer;

/// Whole blocks in memory, enough for one extent.
pub(crate) struct FilledBlocks {
    /// The sources of its packets, and maybe more.
    pub(crate) sources: Arc<[Source]>,
    /// The blocks, after room for a header.
    pub(crate) buffer: Buffer,
    /// Start and end of the blocks.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Packets in them, and their captured bytes.
    pub(crate) counts: Counts,
    /// Times of the oldest and the newest packet; `u64::MAX` and 0 without any.
    pub(crate) oldest: u64,
    pub(crate) newest: u64,
}

impl FilledBlocks {
    /// The blocks.
    pub(crate) fn blocks(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }
}
