//! The progress of a receiving thread, visible to other threads.

use crate::sync::{CachePadded, Counter};

/// Counts the rounds of a receive loop. The thread of the loop writes it, any thread reads it.
#[derive(Debug, Default)]
pub(super) struct LoopRounds(CachePadded<Counter>);

impl LoopRounds {
    const ENDED: u64 = u64::MAX;

    /// A round begins: one per batch, or per wait without packets.
    #[inline]
    pub(super) fn round(&self) {
        self.0.add(1);
    }

    /// The loop has ended. Its thread may still finish its work.
    pub(super) fn end(&self) {
        self.0.set(Self::ENDED);
    }

    /// The number of rounds; `None` after the end.
    pub(super) fn rounds(&self) -> Option<u64> {
        Some(self.0.value()).filter(|rounds| *rounds != Self::ENDED)
    }
}
