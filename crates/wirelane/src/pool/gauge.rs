//! Reads a pool from other threads.

use super::returns::Returns;
use crate::sync::{Arc, AtomicU32, Ordering};

/// The fill level of a pool for other threads: at most one batch old while the pool is in use,
/// exact when it is idle or dropped.
#[derive(Clone)]
pub(crate) struct PoolGauge {
    pub(super) size: u32,
    pub(super) free: Arc<AtomicU32>,
    pub(super) returns: Arc<Returns>,
}

impl std::fmt::Debug for PoolGauge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolGauge").field("size", &self.size).field("free", &self.free()).finish()
    }
}

impl PoolGauge {
    /// Number of frames in the pool.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Number of free frames.
    pub(crate) fn free(&self) -> u32 {
        self.free.load(Ordering::Relaxed) + self.returns.count()
    }
}
