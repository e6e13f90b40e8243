//! A run of encoded packets on its way from the thread that receives to the thread that writes.
//!
//! The receiving thread copies each packet once, into enhanced packet blocks, and so gives the
//! frame back at once: a slow disk never holds ring memory, and what it costs is counted where it
//! happens, as `writer` drops.

use crate::capture::{Direction, Record, pcapng};
use crate::frame::Frame;

/// A partly filled chunk goes to the writer when its first packet is this old, in nanoseconds.
pub(super) const PATIENCE: u64 = 20_000_000;

/// Enhanced packet blocks of one source, in the order received.
pub(super) struct Chunk {
    bytes: Vec<u8>,
}

/// One enhanced packet block inside a chunk.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) timestamp: u64,
    pub(super) len: usize,
}

/// Length of the fixed part of an enhanced packet block, and of its trailer.
const HEADER: usize = 28;
const TRAILER: usize = 4;

impl Chunk {
    /// An empty chunk that is full at about `size` bytes.
    pub(super) fn new(size: usize) -> Self {
        Self { bytes: Vec::with_capacity(size) }
    }

    #[cfg(test)]
    pub(super) fn from_blocks(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Whether `frame` still fits without growing. An empty chunk takes any frame.
    #[inline]
    pub(super) fn has_room_for(&self, frame: &Frame) -> bool {
        let left = self.bytes.capacity() - self.bytes.len();
        HEADER + frame.len().next_multiple_of(4) + TRAILER <= left || self.bytes.is_empty()
    }

    /// Adds a packet of source `interface`.
    #[inline]
    pub(super) fn push(&mut self, interface: u32, frame: &Frame) {
        let record = Record {
            interface,
            timestamp: frame.timestamp(),
            original_len: frame.original_len(),
            direction: Direction::Unknown,
            data: frame.data(),
        };
        pcapng::packet(&mut self.bytes, &record);
    }

    /// Whether its first packet has waited long enough at `time`.
    #[inline]
    pub(super) fn is_stale(&self, time: u64) -> bool {
        self.block(0).is_some_and(|first| first.timestamp.saturating_add(PATIENCE) <= time)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The block at byte `offset`; `None` at the end.
    #[inline]
    pub(super) fn block(&self, offset: usize) -> Option<Block> {
        let header = self.bytes.get(offset..)?.first_chunk::<HEADER>()?;
        let word =
            |i: usize| u32::from_ne_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        let timestamp = u64::from(word(12)) << 32 | u64::from(word(16));
        Some(Block { timestamp, len: word(4) as usize })
    }

    /// The packet of the block at byte `offset`.
    pub(super) fn record(&self, offset: usize) -> Option<Record<'_>> {
        let block = self.bytes.get(offset..)?;
        let header = block.first_chunk::<HEADER>()?;
        let word =
            |i: usize| u32::from_ne_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
        Some(Record {
            interface: word(8),
            timestamp: u64::from(word(12)) << 32 | u64::from(word(16)),
            original_len: word(24),
            direction: Direction::Unknown,
            data: block.get(HEADER..HEADER + word(20) as usize)?,
        })
    }
}
