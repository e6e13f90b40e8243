//! The frame counts of a transmitting end, for other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::pool::PoolGauge;
use crate::port::accounting::FrameCounts;

/// Reads a transmitter's state from another thread.
#[derive(Clone)]
pub(super) struct TxGauge {
    pub(super) slots: u32,
    pub(super) pending: Arc<AtomicU32>,
    pub(super) pool: PoolGauge,
}

impl TxGauge {
    pub(super) fn frames(&self) -> FrameCounts {
        let pending = self.pending.load(Ordering::Relaxed);
        FrameCounts {
            pool: u64::from(self.slots) + u64::from(self.pool.size()),
            free: u64::from(self.slots - pending.min(self.slots)) + u64::from(self.pool.free()),
            tx: u64::from(pending),
            ..FrameCounts::default()
        }
    }
}
