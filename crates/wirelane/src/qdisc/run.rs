//! The running bit of a queue without a lock: one bit owns the TX side, another one means "look
//! again".
//!
//! ```text
//!   producer                             runner
//!   publish frames in the ring           take frames until the ring is empty
//!   idle?    → running: run it           running → idle, unless missed is set:
//!   running? → missed: done                missed → running, and take again
//!   missed?  → missed again: done
//! ```
//!
//! If another producer is running, it also sends the frames of this one. Frames that arrive between
//! the runner's last look at the ring and its release of the bit could be stranded: Linux's
//! lockless `pfifo_fast` had that bug ("stuck packets") from 4.16 until 5.13 added
//! `__QDISC_STATE_MISSED` (`qdisc_run_begin` and `qdisc_run_end`, `include/net/sch_generic.h`).
//! Here the bit is only released by a compare-and-swap, which fails if a producer has set `missed`.
//! Every arrow is a read-modify-write. Each sees the previous one on this word, and all writes
//! published before that, so that no barrier is needed.
//!
//! The bits are not a lock: no producer waits for them on the hot path.

use super::lock::relax;
use crate::sync::{AtomicU32, CachePadded, Ordering};

/// The most frames that a producer moves to the TX ring in one call, so that the others' traffic
/// does not delay it for long (`weight_p` of the kernel's `__qdisc_run`).
pub(super) const QUOTA: usize = 256;

const IDLE: u32 = 0;
const RUNNING: u32 = 1;
const MISSED: u32 = 3;

/// The right to drain the ring and to use the TX side.
#[derive(Debug)]
pub(super) struct RunBit(CachePadded<AtomicU32>);

impl RunBit {
    pub(super) fn new() -> Self {
        Self(CachePadded(AtomicU32::new(IDLE)))
    }

    /// Becomes the runner if there is none: one compare-and-swap. An existing runner does not
    /// notice.
    #[inline(always)]
    pub(super) fn try_begin(&self) -> bool {
        // Reading first does not move the cache line while another producer is running.
        self.0.load(Ordering::Relaxed) == IDLE && self.swap(IDLE, RUNNING, Ordering::Acquire)
    }

    /// Becomes the runner, or makes the current runner look again. Call it after publishing frames.
    #[inline]
    pub(super) fn begin(&self) -> bool {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            // Swap also from missed to missed: only a swap publishes our frames to the thread that
            // clears the bit.
            let to = if now == IDLE { RUNNING } else { MISSED };
            match self.0.compare_exchange_weak(now, to, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return now == IDLE,
                Err(other) => now = other,
            }
        }
    }

    /// Waits until there is no runner, and becomes the runner. Not for the hot path.
    pub(super) fn acquire(&self) {
        let mut round = 0;
        while !self.try_begin() {
            relax(&mut round);
        }
    }

    /// Stops running. False if frames arrived during the run: the caller is still the runner, and
    /// must look again.
    #[inline(always)]
    pub(super) fn end(&self) -> bool {
        if self.swap(RUNNING, IDLE, Ordering::Release) {
            return true;
        }
        // Acquire the frames of the producers that set the bit.
        self.0.swap(RUNNING, Ordering::Acquire);
        false
    }

    /// Stops running even if frames arrived, because a later call will look at the ring.
    pub(super) fn abandon(&self) {
        self.0.store(IDLE, Ordering::Release);
    }

    #[inline(always)]
    fn swap(&self, from: u32, to: u32, order: Ordering) -> bool {
        self.0.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_runs_and_hears_of_the_others() {
        let bit = RunBit::new();
        assert!(bit.begin() && !bit.try_begin());
        assert!(bit.end());
        assert!(bit.try_begin() && !bit.begin() && !bit.begin());
        assert!(!bit.end(), "missed");
        assert!(bit.end());
        assert!(bit.try_begin() && !bit.begin());
        bit.abandon();
        bit.acquire();
        assert!(bit.end());
    }
}
