//! What is on the way between two ports at a cable.

use crate::sync::{CachePadded, Counter};

/// What is counted of one path: `sent` and `lost` by its sender, `received` by its receiver.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) sent: CachePadded<Counter>,
    pub(super) lost: CachePadded<Counter>,
    pub(super) received: CachePadded<Counter>,
}

impl Tally {
    /// Frames on the way.
    pub(super) fn in_flight(&self) -> u64 {
        let received = self.received.value();
        self.sent.value().saturating_sub(received)
    }
}
