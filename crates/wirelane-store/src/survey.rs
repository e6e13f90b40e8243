//! Reads a whole segment, finds its whole and damaged extents, and rebuilds its index.

use std::fs::File;
use std::path::PathBuf;

use rustix::fs::{Advice, fadvise};
use wirelane_pcap::pcapng::{self, Content};

use crate::error::{Error, Result};
use crate::extent::Extent;
use crate::index::IndexBuilder;
use crate::names::SegmentName;
use crate::query::{Damage, Loader, Segment};
use crate::scan::{GapKind, Scan, scan};

/// The content of a segment.
pub(crate) struct Survey {
    /// The scan of its headers.
    pub(crate) scan: Scan,
    /// Undamaged extents.
    pub(crate) whole: Vec<Extent>,
    /// Damaged extents, with reasons.
    pub(crate) bad: Vec<(Extent, Damage)>,
    /// Errors inside undamaged extents: they were written so.
    pub(crate) odd: Vec<Damage>,
    /// Packets of the undamaged extents.
    pub(crate) packets: u64,
    /// The index of the undamaged extents.
    index: IndexBuilder,
}

/// Reads the whole segment, without using its index.
///
/// # Errors
/// The system refuses.
pub(crate) fn survey(name: &SegmentName, path: PathBuf, file: File) -> Result<Survey> {
    let failed = |error: std::io::Error| Error::io(&path, "read", &error);
    let mut scan = scan(&file, name.is_compressed()).map_err(failed)?;
    scan.add_missing_end(name.times);
    let _ = fadvise(&file, 0, None, Advice::Sequential);
    let unread = file.try_clone().map_err(failed)?;
    let segment = Segment::scanned(*name, path, file, &scan);
    let index = IndexBuilder::new(scan.segment.unwrap_or_default());
    let mut new =
        Survey { scan, whole: Vec::new(), bad: Vec::new(), odd: Vec::new(), packets: 0, index };
    let mut loader = Loader::default();
    for extent in segment.extents() {
        match segment.load(extent, &mut loader) {
            Ok(blocks) => new.add(&segment, extent, blocks),
            Err(damage) => new.bad.push((*extent, damage)),
        }
    }
    // These pages are read once, and should not displace others from the page cache.
    let _ = fadvise(&unread, 0, None, Advice::DontNeed);
    Ok(new)
}

impl Survey {
    /// Whether it is undamaged, except perhaps one of the two copies of the prelude.
    pub(crate) fn is_whole(&self) -> bool {
        self.bad.is_empty()
            && self.odd.is_empty()
            && self.scan.gaps.iter().all(|gap| gap.kind == GapKind::Prelude)
    }

    /// Times of the oldest and the newest packet, if there are packets.
    pub(crate) fn times(&self) -> Option<(u64, u64)> {
        let with_packets = || self.whole.iter().filter(|extent| extent.header.packets > 0);
        let oldest = with_packets().map(|extent| extent.header.oldest).min()?;
        let newest = with_packets().map(|extent| extent.header.newest).max()?;
        Some((oldest, newest))
    }

    /// The index as a file.
    pub(crate) fn into_index(self) -> Vec<u8> {
        self.index.finish()
    }

    fn add(&mut self, segment: &Segment, extent: &Extent, blocks: &[u8]) {
        let mut odd = |what: String| {
            let path = segment.path().into();
            self.odd.push(Damage { path, offset: extent.offset, what: what.into() });
        };
        for block in pcapng::blocks(blocks) {
            let block = match block {
                Ok(block) => block,
                Err(bad) => {
                    odd(format!("in its extent, {}", bad.what));
                    break;
                }
            };
            let Content::Packet { record, .. } = block.content else { continue };
            match segment.sources().get(record.interface as usize) {
                Some(source) => self.index.packet(source.link_type, record.data),
                None => odd("a packet refers to an interface that the prelude lacks".into()),
            }
            self.packets += 1;
        }
        self.index.end_extent(extent.offset, &extent.header);
        self.whole.push(*extent);
    }
}
