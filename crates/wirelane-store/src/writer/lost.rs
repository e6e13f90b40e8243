//! The callback for lost packets. Counts and indexes the packets of an extent.

use crc32fast::Hasher;
use wirelane_pcap::Source;
use wirelane_pcap::pcapng::{self, Content};

use crate::index::IndexBuilder;

/// Called by the thread that writes the lane, with the number of a source, the number of its
/// packets, and their bytes on the wire.
pub type Lost = Box<dyn FnMut(u32, u64, u64) + Send>;

/// The packets of each source, and their bytes on the wire.
#[derive(Clone, Debug)]
pub(crate) struct BySource(Box<[(u64, u64)]>);

impl BySource {
    pub(crate) fn new(sources: usize) -> Self {
        Self(vec![(0, 0); sources].into())
    }

    #[inline]
    pub(crate) fn add(&mut self, source: u32, original_len: u32) {
        if let Some((packets, bytes)) = self.0.get_mut(source as usize) {
            *packets += 1;
            *bytes += u64::from(original_len);
        }
    }

    /// Reports all sources with packets.
    pub(crate) fn tell(&self, lost: &mut Lost) {
        for (source, (packets, bytes)) in (0..).zip(self.0.iter().copied()) {
            if packets > 0 {
                lost(source, packets, bytes);
            }
        }
    }
}

/// How far the checksum reads ahead of the walk over blocks: this fits into the L1 cache.
const AHEAD: usize = 16 * 1024;

/// Indexes packets, and counts them by source.
pub(crate) fn add_blocks(
    blocks: &[u8],
    sources: &[Source],
    index: &mut Option<IndexBuilder>,
) -> BySource {
    walk(blocks, sources, index, |_| {})
}

/// Like [`add_blocks`], and computes the checksum of the blocks. Together they read memory once; a
/// walk alone would wait for the header of each block.
pub(crate) fn add_and_sum(
    blocks: &[u8],
    sources: &[Source],
    index: &mut Option<IndexBuilder>,
) -> (BySource, u32) {
    let (mut sum, mut rest, mut next) = (Hasher::new(), blocks, AHEAD / 2);
    let mut read_on = || {
        let (now, later) = rest.split_at(rest.len().min(AHEAD));
        sum.update(now);
        rest = later;
    };
    read_on();
    let by_source = walk(blocks, sources, index, |offset| {
        // The walk stays half a step behind the checksum.
        while offset >= next {
            read_on();
            next += AHEAD;
        }
    });
    sum.update(rest);
    (by_source, sum.finalize())
}

/// `reached` is called with the offset of each block before it is parsed.
fn walk(
    blocks: &[u8],
    sources: &[Source],
    index: &mut Option<IndexBuilder>,
    mut reached: impl FnMut(usize),
) -> BySource {
    let mut counts = BySource::new(sources.len());
    for block in pcapng::blocks(blocks) {
        let Ok(block) = block else { break };
        reached(block.offset);
        let Content::Packet { record, .. } = block.content else { continue };
        counts.add(record.interface, record.original_len);
        if let Some(index) = index
            && let Some(source) = sources.get(record.interface as usize)
        {
            index.packet(source.link_type, record.data);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirelane_pcap::{Class, Direction, Record};

    #[test]
    fn one_walk_counts_and_sums() {
        let sources = [Source::new("a", Class::Rx, Some(0)), Source::new("a", Class::Rx, Some(1))];
        for (packets, len) in [(0, 0), (1, 1), (300, 1500), (3000, 60), (3, 60_000)] {
            let mut blocks = Vec::new();
            for number in 0..packets {
                let data = vec![number as u8; len];
                let record = Record {
                    interface: number % 3,
                    timestamp: 1,
                    original_len: 2,
                    direction: Direction::Unknown,
                    data: &data,
                };
                pcapng::packet(&mut blocks, &record);
            }
            let (counts, sum) = add_and_sum(&blocks, &sources, &mut None);
            assert_eq!(sum, crc32fast::hash(&blocks), "{packets} of {len}");
            assert_eq!(counts.0, add_blocks(&blocks, &sources, &mut None).0);
            // The third interface is not one of the lane.
            let of = |first| u64::from((packets + first) / 3);
            assert_eq!(*counts.0, [(of(2), 2 * of(2)), (of(1), 2 * of(1))]);
        }
        // Bytes that are not blocks are included in the checksum.
        assert_eq!(
            add_and_sum(&[7; 100_001], &sources, &mut None).1,
            crc32fast::hash(&[7; 100_001])
        );
    }
}
