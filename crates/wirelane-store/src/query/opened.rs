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

/// An extent that is to be read.
#[derive(Clone)]
pub(super) struct Stop {
    pub(super) opened: Arc<Opened>,
    pub(super) extent: Extent,
}
