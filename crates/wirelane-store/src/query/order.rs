//! The order of an answer, and runs of packets in that order.

use std::sync::Arc;

use wirelane_pcap::Record;
use wirelane_pcap::pcapng::{self, Block, Content};

/// The position of a packet in an answer: by time, then by segment, then by position in the
/// segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PacketPosition {
    pub(super) time: u64,
    /// Rank of its segment: by store, then by number.
    pub(super) segment: u32,
    /// Offset of its extent in the segment.
    pub(super) extent: u64,
    /// Offset of its block in the extent.
    pub(super) block: u32,
}

/// A part of an answer: from a packet on, up to another packet, which is excluded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerWindow {
    pub(super) from: PacketPosition,
    pub(super) until: Option<PacketPosition>,
}

impl AnswerWindow {
    #[inline]
    pub(super) fn includes(&self, key: &PacketPosition) -> bool {
        self.from <= *key && self.until.is_none_or(|until| *key < until)
    }
}

/// Packets of one extent that belong to the answer, in its order.
#[derive(Debug, Default)]
pub(super) struct AnswerRun {
    /// Number in the answer of each interface of their segment.
    interfaces: Arc<[u32]>,
    segment: u32,
    extent: u64,
    /// Their blocks.
    bytes: Vec<u8>,
    items: Vec<AnswerItem>,
    /// The number of items taken.
    taken: usize,
}

#[derive(Clone, Copy, Debug)]
struct AnswerItem {
    time: u64,
    /// Offset of the block in the extent.
    block: u32,
    /// Offset of the block in `bytes`.
    at: u32,
    len: u32,
}

impl AnswerRun {
    /// An empty run of this extent.
    pub(super) fn new(interfaces: Arc<[u32]>, segment: u32, extent: u64) -> Self {
        Self { interfaces, segment, extent, ..Self::default() }
    }

    /// The position of a packet at time 0 and at the start of the extent.
    pub(super) fn start(&self) -> PacketPosition {
        PacketPosition { segment: self.segment, extent: self.extent, ..PacketPosition::default() }
    }

    /// Adds a packet: its time and its block.
    #[inline]
    pub(super) fn push(&mut self, time: u64, block: &Block<'_>) {
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(block.bytes);
        let len = block.bytes.len() as u32;
        self.items.push(AnswerItem { time, block: block.offset as u32, at, len });
    }

    /// Sorts the packets. They are nearly sorted, unless a clock jumped back.
    pub(super) fn sort(&mut self) {
        self.items.sort_by_key(|item| (item.time, item.block));
    }

    /// The position of the next packet; `None` at the end.
    #[inline]
    pub(super) fn head(&self) -> Option<PacketPosition> {
        self.items.get(self.taken).map(|item| self.key(item))
    }

    /// Takes the next packet, with its block. Its interface is numbered as in the answer.
    #[inline]
    pub(super) fn take(&mut self) -> Option<(Record<'_>, Block<'_>)> {
        let item = self.items.get(self.taken)?;
        self.taken += 1;
        let (start, len) = (item.at as usize, item.len as usize);
        let block = pcapng::blocks(self.bytes.get(start..start + len)?).next()?.ok()?;
        let Content::Packet { mut record, .. } = block.content else { return None };
        record.interface = *self.interfaces.get(record.interface as usize)?;
        Some((record, block))
    }

    /// Bytes of memory in use.
    pub(super) fn size(&self) -> usize {
        self.bytes.capacity() + self.items.capacity() * size_of::<AnswerItem>()
    }

    /// The positions of every `step`th remaining packet.
    pub(super) fn sample(&self, step: usize) -> impl Iterator<Item = PacketPosition> + '_ {
        self.items.iter().skip(self.taken).step_by(step).map(|item| self.key(item))
    }

    /// The number of remaining packets.
    pub(super) fn left(&self) -> usize {
        self.items.len() - self.taken
    }

    /// Drops the packets from this position on, and frees their memory and the memory of taken
    /// packets.
    pub(super) fn truncate(&mut self, until: PacketPosition) {
        let left = self.items.get(self.taken..).unwrap_or_default();
        let keep = left.partition_point(|item| self.key(item) < until);
        if keep == left.len() {
            return;
        }
        let mut kept = Self::new(Arc::clone(&self.interfaces), self.segment, self.extent);
        let keep = left.get(..keep).unwrap_or_default();
        kept.items.reserve_exact(keep.len());
        kept.bytes.reserve_exact(keep.iter().map(|item| item.len as usize).sum());
        for item in keep {
            let (start, len) = (item.at as usize, item.len as usize);
            let at = kept.bytes.len() as u32;
            kept.bytes.extend_from_slice(self.bytes.get(start..start + len).unwrap_or_default());
            kept.items.push(AnswerItem { at, ..*item });
        }
        *self = kept;
    }

    #[inline]
    fn key(&self, item: &AnswerItem) -> PacketPosition {
        PacketPosition {
            time: item.time,
            segment: self.segment,
            extent: self.extent,
            block: item.block,
        }
    }
}
