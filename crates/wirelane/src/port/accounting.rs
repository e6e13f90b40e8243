//! Where the frames of a port are: none is lost, and none is in two places.

use std::ops::AddAssign;
use std::sync::Arc;

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::pool::PoolGauge;

/// Where the frames of a port are. `free + fill + rx + held + tx + completion = pool` at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct FrameCounts {
    /// All frames (for a mapped kernel ring: blocks, the unit in which it changes hands).
    pub pool: u64,
    /// Free.
    pub free: u64,
    /// Waiting for the interface to fill them.
    pub fill: u64,
    /// Filled and not yet received.
    pub rx: u64,
    /// Waiting to be transmitted, or being transmitted.
    pub tx: u64,
    /// Transmitted and not yet reclaimed.
    pub completion: u64,
}

impl FrameCounts {
    /// Frames in the hands of the program. After it has dropped all of its frames, anything left
    /// here has leaked.
    pub fn held(&self) -> u64 {
        let elsewhere = self.free + self.fill + self.rx + self.tx + self.completion;
        self.pool.saturating_sub(elsewhere)
    }

    /// The frames of pools.
    pub(crate) fn of<'a>(gauges: impl IntoIterator<Item = &'a PoolGauge>) -> Self {
        let mut sum = Self::default();
        for gauge in gauges {
            let (pool, free) = (u64::from(gauge.size()), u64::from(gauge.free()));
            sum += Self { pool, free, ..Self::default() };
        }
        sum
    }
}

impl AddAssign for FrameCounts {
    fn add_assign(&mut self, other: Self) {
        self.pool += other.pool;
        self.free += other.free;
        self.fill += other.fill;
        self.rx += other.rx;
        self.tx += other.tx;
        self.completion += other.completion;
    }
}

/// Counts the frames of a port, from any thread. It keeps none of them.
#[derive(Clone)]
pub struct Accounting(Arc<dyn Fn() -> FrameCounts + Send + Sync>);

impl Accounting {
    /// Counts with this function.
    pub(crate) fn new(count: impl Fn() -> FrameCounts + Send + Sync + 'static) -> Self {
        Self(Arc::new(count))
    }

    /// Where the frames are now.
    pub fn frames(&self) -> FrameCounts {
        (self.0)()
    }
}
