//! Who is told of packets that the disk did not take; counting and indexing the packets of an
//! extent.

use wirelane_pcap::Source;
use wirelane_pcap::pcapng::{self, Content};

use crate::index::IndexBuilder;

/// Called with the number of a source, packets of it, and their bytes on the wire; by the thread
/// that writes the lane.
pub type Lost = Box<dyn FnMut(u32, u64, u64) + Send>;

/// Packets, and their bytes on the wire, of each source.
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

    /// Tells all that are not zero.
    pub(crate) fn tell(&self, lost: &mut Lost) {
        for (source, (packets, bytes)) in (0..).zip(self.0.iter().copied()) {
            if packets > 0 {
                lost(source, packets, bytes);
            }
        }
    }
}

/// Indexes packets, and counts them by source.
pub(crate) fn add_blocks(
    blocks: &[u8],
    sources: &[Source],
    index: &mut Option<IndexBuilder>,
) -> BySource {
    let mut counts = BySource::new(sources.len());
    for block in pcapng::blocks(blocks) {
        let Ok(Content::Packet { record, .. }) = block.map(|block| block.content) else { continue };
        counts.add(record.interface, record.original_len);
        if let Some(index) = index
            && let Some(source) = sources.get(record.interface as usize)
        {
            index.packet(source.link_type, record.data);
        }
    }
    counts
}
