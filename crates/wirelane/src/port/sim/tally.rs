//! Frames in transit between two ports on a cable.

use crate::sync::{CachePadded, Counter};

/// The counters of one path: its sender writes `sent` and `lost`, its receiver `received`.
#[derive(Debug, Default)]
pub(super) struct PathCounters {
    pub(super) sent: CachePadded<Counter>,
    pub(super) lost: CachePadded<Counter>,
    pub(super) received: CachePadded<Counter>,
}

impl PathCounters {
    /// The number of frames in transit.
    pub(super) fn in_flight(&self) -> u64 {
        let received = self.received.value();
        self.sent.value().saturating_sub(received)
    }
}
