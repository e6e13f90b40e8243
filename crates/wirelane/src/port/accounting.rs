//! Counts of a port's frames by place. Each frame is counted exactly once.

use std::iter::Sum;
use std::ops::AddAssign;
use std::sync::Arc;

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::pool::PoolGauge;

/// A port's frames by place. `free + fill + rx + held + tx + completion = pool` at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct FrameCounts {
    /// All frames of the port. A mapped kernel ring counts in blocks.
    pub pool: u64,
    /// Free.
    pub free: u64,
    /// Waiting for the interface to fill them.
    pub fill: u64,
    /// Filled and not received yet.
    pub rx: u64,
    /// Queued for transmission, or being transmitted.
    pub tx: u64,
    /// Transmitted and not reclaimed yet.
    pub completion: u64,
}

impl FrameCounts {
    /// Frames that the program holds. After the program has dropped all its frames, a value above 0
    /// is a leak.
    pub fn held(&self) -> u64 {
        let elsewhere = self.free + self.fill + self.rx + self.tx + self.completion;
        self.pool.saturating_sub(elsewhere)
    }

    /// The frames of these pools.
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

impl Sum for FrameCounts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, one| {
            sum += one;
            sum
        })
    }
}

/// Counts the frames of a port, from any thread. It keeps no frame alive.
#[derive(Clone)]
pub struct Accounting(Arc<dyn Fn() -> FrameCounts + Send + Sync>);

impl Accounting {
    /// Counts with this function.
    pub(crate) fn new(count: impl Fn() -> FrameCounts + Send + Sync + 'static) -> Self {
        Self(Arc::new(count))
    }

    /// The frames by place, now.
    pub fn frames(&self) -> FrameCounts {
        (self.0)()
    }
}
