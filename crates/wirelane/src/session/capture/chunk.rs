//! A run of encoded packets on its way from the receiving thread to the writing thread.
//!
//! The receiving thread copies each packet once, into enhanced packet blocks, and returns the frame
//! at once. So a slow disk never holds ring memory, and its losses are counted separately, as
//! `writer` drops.

use crate::frame::Frame;
use crate::pcap::{Direction, Record, pcapng};
use crate::session::comment::Comment;

/// A partly filled chunk is passed to the writer when its first packet is this old, in nanoseconds.
pub(super) const PATIENCE: u64 = 50_000_000;

/// Enhanced packet blocks of one source, in the order received.
pub(super) struct Chunk {
    bytes: Vec<u8>,
    /// Timestamps of the oldest and newest packet, and whether the packets are in order. A queue
    /// that several CPUs feed is not quite in order: the kernel timestamps a packet before it takes
    /// the queue's lock.
    oldest: u64,
    newest: u64,
    in_order: bool,
    packets: u64,
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
/// Bytes of the direction option of a packet with the end of options.
const FLAGS: usize = 12;
/// The longest comment with its option header and the end of options.
const COMMENT: usize = Comment::LONGEST + 8;

impl Chunk {
    /// An empty chunk that is full at about `size` bytes.
    pub(super) fn new(size: usize) -> Self {
        let bytes = Vec::with_capacity(size);
        Self { bytes, oldest: u64::MAX, newest: 0, in_order: true, packets: 0 }
    }

    #[cfg(test)]
    pub(super) fn from_blocks(bytes: Vec<u8>) -> Self {
        let mut chunk = Self { bytes, ..Self::new(0) };
        let times: Vec<u64> = chunk.blocks(0).map(|(time, _)| time).collect();
        times.into_iter().for_each(|time| chunk.note(time));
        chunk
    }

    /// Whether `frame` fits without growing. An empty chunk takes any frame.
    #[inline]
    pub(super) fn has_room_for(&self, frame: &Frame) -> bool {
        let left = self.bytes.capacity() - self.bytes.len();
        let options = if frame.says_more() { longest_options(frame) } else { FLAGS };
        let block = HEADER + frame.len().next_multiple_of(4) + options + TRAILER;
        block <= left || self.bytes.is_empty()
    }

    /// Adds a packet of source `interface`, with its `direction` if the interface does not
    /// determine it.
    #[inline]
    pub(super) fn push(&mut self, interface: u32, direction: Direction, frame: &Frame) {
        let record = Record {
            interface,
            timestamp: frame.timestamp(),
            original_len: frame.original_len(),
            direction,
            data: frame.data(),
        };
        self.note(record.timestamp);
        if frame.says_more() {
            push_with_options(&mut self.bytes, &record, frame);
        } else {
            pcapng::packet(&mut self.bytes, &record);
        }
    }

    /// Copies the first of the `packets` blocks in `bytes` that fit without growing, and at least
    /// one into an empty chunk. Returns how many bytes and packets were copied.
    pub(super) fn copy_blocks(&mut self, bytes: &[u8], packets: u64) -> (usize, u64) {
        let room = self.bytes.capacity() - self.bytes.len();
        let (mut len, mut count) = (bytes.len(), packets);
        if len > room {
            (len, count) = (0, 0);
            while count < packets
                && let Some(block) = block(bytes, len)
                && (len + block.len <= room || self.bytes.is_empty() && count == 0)
            {
                (len, count) = (len + block.len, count + 1);
            }
        }
        self.bytes.extend_from_slice(bytes.get(..len).unwrap_or_default());
        self.packets += count;
        (len, count)
    }

    /// Whether its first packet has waited long enough at `time`.
    #[inline]
    pub(super) fn is_stale(&self, time: u64) -> bool {
        self.oldest.saturating_add(PATIENCE) <= time && !self.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        (self.oldest, self.newest, self.in_order, self.packets) = (u64::MAX, 0, true, 0);
    }

    /// Sorts the packets by time; packets with the same time keep their order. `scratch` is
    /// temporary memory.
    pub(super) fn sort(&mut self, scratch: &mut Vec<u8>) {
        if !self.in_order {
            self.sort_from(0, scratch);
        }
    }

    /// Adds the packets of `other`, and sorts all packets from byte `offset` on by time.
    pub(super) fn absorb(&mut self, other: &Self, offset: usize, scratch: &mut Vec<u8>) {
        self.bytes.extend_from_slice(&other.bytes);
        self.newest = self.newest.max(other.newest);
        self.packets += other.packets;
        self.sort_from(offset, scratch);
        // Packets before `offset` have left and no longer count.
        self.oldest = self.block(offset).map_or(u64::MAX, |first| first.timestamp);
    }

    fn sort_from(&mut self, offset: usize, scratch: &mut Vec<u8>) {
        let mut blocks: Vec<_> = self.blocks(offset).collect();
        blocks.sort_by_key(|(time, _)| *time);
        scratch.clear();
        for (_, range) in blocks {
            scratch.extend_from_slice(self.bytes.get(range).unwrap_or_default());
        }
        // Copied back instead of swapped: the chunk keeps its memory and capacity.
        self.bytes.truncate(offset);
        self.bytes.extend_from_slice(scratch);
        self.in_order = true;
    }

    /// Timestamp and byte range of every packet from byte `at` on.
    pub(super) fn blocks(
        &self,
        mut at: usize,
    ) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
        std::iter::from_fn(move || {
            let block = self.block(at)?;
            let start = at;
            at += block.len;
            Some((block.timestamp, start..at))
        })
    }

    #[inline(always)]
    fn note(&mut self, time: u64) {
        self.packets += 1;
        self.in_order &= time >= self.newest;
        self.oldest = self.oldest.min(time);
        self.newest = self.newest.max(time);
    }

    /// Timestamp of the oldest packet; `u64::MAX` without packets.
    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Timestamp of the newest packet.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The block at byte `offset`; `None` at the end.
    #[inline]
    pub(super) fn block(&self, offset: usize) -> Option<Block> {
        block(&self.bytes, offset)
    }

    /// The encoded options of the packet in the block at byte `offset`.
    #[inline]
    pub(super) fn options(&self, offset: usize) -> &[u8] {
        let of_block = || {
            let block = self.bytes.get(offset..)?.get(..self.block(offset)?.len)?;
            let len = u32::from_ne_bytes(*block.get(20..)?.first_chunk()?) as usize;
            block.get(HEADER + len.next_multiple_of(4)..block.len() - TRAILER)
        };
        of_block().unwrap_or_default()
    }

    /// The packets, in their current order.
    pub(super) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let here = at;
            at += self.block(here)?.len;
            self.record(here)
        })
    }

    /// The packets with their options, in their current order.
    pub(super) fn with_options(&self) -> impl Iterator<Item = (Record<'_>, &[u8])> {
        self.blocks(0)
            .filter_map(|(_, range)| Some((self.record(range.start)?, self.options(range.start))))
    }

    /// The packet in the block at byte `offset`.
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

/// The most bytes of the options of a packet with metadata.
#[cold]
fn longest_options(frame: &Frame) -> usize {
    let attached = frame.attached().map_or(0, |(_, options)| options.len().next_multiple_of(4));
    let hints = if frame.has_hints() { COMMENT } else { 0 };
    FLAGS + hints + attached
}

/// Adds a packet with the options that it had in its file, or with the driver's metadata.
#[cold]
fn push_with_options(bytes: &mut Vec<u8>, record: &Record<'_>, frame: &Frame) {
    match (Comment::of(frame), frame.attached()) {
        (Some(comment), _) => pcapng::packet_with_comment(bytes, record, comment.as_str()),
        (None, attached) => {
            let options = attached.map(|(_, options)| options).unwrap_or_default();
            pcapng::packet_with_options(bytes, record, options);
        }
    }
}

/// The block at byte `offset`; `None` at the end.
#[inline]
fn block(bytes: &[u8], offset: usize) -> Option<Block> {
    let header = bytes.get(offset..)?.first_chunk::<HEADER>()?;
    let word =
        |i: usize| u32::from_ne_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
    let timestamp = u64::from(word(12)) << 32 | u64::from(word(16));
    Some(Block { timestamp, len: word(4) as usize })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Batch, Hints};
    use crate::pcap::CaptureReader;
    use crate::pcap::pcapng;
    use crate::pcap::{Section, Source};
    use crate::pool::{Pool, PoolConfig};

    #[test]
    fn what_the_interface_says_is_a_comment() {
        let config = PoolConfig { chunks: 1, chunk_size: 2048, headroom: 128, numa_node: None };
        let mut pool = Pool::new(config).unwrap();
        let present = Hints::PRESENT;
        for (time, hash, marks, expected) in [
            (
                1_712_345_678_000_000_009_u64,
                0x9a_u32,
                present | Hints::HASHED | 0x19,
                "rx_timestamp=1712345678.000000009 rx_hash=0x0000009a (IPv4 L4 TCP)",
            ),
            (u64::MAX, 0, present, "rx_timestamp=18446744073.709551615"),
            (
                0,
                u32::MAX,
                present | Hints::HASHED | Hints::KIND,
                "rx_hash=0xffffffff (IPv4 IPv6 extension headers L4 TCP UDP SCTP IPsec ICMP)",
            ),
            (
                u64::MAX,
                u32::MAX,
                present | Hints::HASHED | Hints::KIND,
                "rx_timestamp=18446744073.709551615 rx_hash=0xffffffff (IPv4 IPv6 extension \
                 headers L4 TCP UDP SCTP IPsec ICMP)",
            ),
            (0, 0, present, ""),
            (0, 0, 0, ""),
        ] {
            let mut batch = Batch::new(1);
            pool.take(&mut batch, 1);
            let mut frame = batch.pop().unwrap();
            assert!(frame.fill(&[5; 61]));
            let hints = [&time.to_ne_bytes()[..], &hash.to_ne_bytes(), &marks.to_ne_bytes()];
            assert!(frame.write_before(&hints.concat()));
            frame.adopt_hints();
            // It fits where it says that it does.
            let mut chunk = Chunk::new(0);
            chunk.bytes = Vec::with_capacity(400);
            while chunk.has_room_for(&frame) && chunk.bytes.len() < 300 {
                chunk.push(0, Direction::Unknown, &frame);
            }
            assert_eq!(chunk.bytes.capacity(), 400);
            let text = String::from_utf8_lossy(chunk.bytes()).into_owned();
            assert!(
                text.contains(expected) && text.contains("rx_") != expected.is_empty(),
                "{text:?}"
            );
            assert_eq!(chunk.record(0).unwrap().data, [5; 61]);
            let mut file = Vec::new();
            pcapng::section_header(&mut file, &Section::default());
            pcapng::interface(&mut file, &Source { link_type: 1, ..Source::default() });
            file.extend_from_slice(chunk.bytes());
            let mut reader = CaptureReader::from_reader(std::io::Cursor::new(file), "x").unwrap();
            let mut packets = 0;
            while let Some(record) = reader.next_record().unwrap() {
                assert_eq!((record.data, record.original_len), (&[5; 61][..], 61));
                packets += 1;
            }
            assert_eq!(packets, chunk.blocks(0).count());
        }
    }
}
