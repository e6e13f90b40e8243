//! Segments on the way through the stores.

use std::sync::Arc;

use super::segment::Segment;
use super::sift::Interface;
use crate::extent::Extent;
use crate::names::SegmentName;

/// A segment of one of the stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Number of the store.
    pub(super) store: usize,
    pub(super) name: SegmentName,
    pub(super) is_pinned: bool,
}

/// Extents of a lane that its recorder writes at once, at most.
const UNDER_WAY: u32 = 64;

/// A segment that is open.
pub(super) struct Opened {
    pub(super) segment: Segment,
    pub(super) rank: u32,
    pub(super) interfaces: Vec<Interface>,
    /// Number in the answer of each interface.
    pub(super) numbers: Arc<[u32]>,
    /// Whether its recorder is at work: what is missing may still come.
    pub(super) is_growing: bool,
}

impl Opened {
    /// Whether an extent may be written just now: its header may be there before the rest is.
    pub(super) fn is_new(&self, extent: &Extent) -> bool {
        let last = self.segment.extents().last();
        self.is_growing
            && last.is_some_and(|last| {
                last.header.number.saturating_sub(extent.header.number) < UNDER_WAY
            })
    }
}

/// An extent that is to be read.
#[derive(Clone)]
pub(super) struct Stop {
    pub(super) opened: Arc<Opened>,
    pub(super) extent: Extent,
}
