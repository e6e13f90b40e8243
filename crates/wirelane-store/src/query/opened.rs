//! The open segments of a query.

use std::sync::Arc;

use super::segment::Segment;
use super::sift::SegmentInterface;
use crate::extent::Extent;
use crate::names::SegmentName;

/// A segment of one of the stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreSegment {
    /// Number of the store.
    pub(super) store: usize,
    pub(super) name: SegmentName,
    pub(super) is_pinned: bool,
}

/// The most extents of a lane that its recorder writes at once.
const UNDER_WAY: u32 = 64;

/// A segment that is open.
pub(super) struct OpenedSegment {
    pub(super) segment: Segment,
    pub(super) rank: u32,
    pub(super) interfaces: Vec<SegmentInterface>,
    /// Number in the answer of each interface.
    pub(super) numbers: Arc<[u32]>,
    /// Whether its recorder is running: missing parts may still appear.
    pub(super) is_growing: bool,
}

impl OpenedSegment {
    /// Whether an extent may be incomplete: its recorder may have written the header before the
    /// rest.
    pub(super) fn is_new(&self, extent: &Extent) -> bool {
        let last = self.segment.extents().last();
        self.is_growing
            && last.is_some_and(|last| {
                last.header.number.saturating_sub(extent.header.number) < UNDER_WAY
            })
    }
}

/// An extent to read.
#[derive(Clone)]
pub(super) struct ExtentRead {
    pub(super) opened: Arc<OpenedSegment>,
    pub(super) extent: Extent,
}
