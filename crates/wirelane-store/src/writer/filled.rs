//! A buffer that the receiving thread filled: what the threads of a lane hand on.

use std::sync::Arc;

use wirelane_os::disk::Buffer;
use wirelane_pcap::Source;

use super::status::Counts;

/// An extent's worth of whole blocks in memory.
pub(crate) struct Filled {
    /// The sources that its packets refer to, and maybe more.
    pub(crate) sources: Arc<[Source]>,
    /// The blocks, behind room for a header.
    pub(crate) buffer: Buffer,
    /// Where the blocks start and end.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Packets in them, and their captured bytes.
    pub(crate) counts: Counts,
    /// Times of the oldest and the newest packet; `u64::MAX` and 0 without any.
    pub(crate) oldest: u64,
    pub(crate) newest: u64,
}

impl Filled {
    /// The blocks.
    pub(crate) fn blocks(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }
}
