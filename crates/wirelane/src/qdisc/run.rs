//! Who runs a queue that has no lock: one bit to own the TX side, one to say "look again".
//!
//! ```text
//!   producer                             runner
//!   publish frames in the ring           take frames until the ring is empty
//!   idle?    → running: run it           running → idle, unless missed is set:
//!   running? → missed: done                missed → running, and take again
//!   missed?  → missed again: done
//! ```
//!
//! A producer that finds another one running leaves its frames to that one. Between the runner's
//! last look at the ring and its giving up of the bit, frames could be left to nobody: Linux's
//! lockless `pfifo_fast` had that bug ("stuck packets") from 4.16 until `__QDISC_STATE_MISSED` came
//! with 5.13 (`qdisc_run_begin` and `qdisc_run_end`, `include/net/sch_generic.h`). Here the bit can
//! only be given up by a compare-and-swap that fails if a producer came in between. Every arrow is
//! a read-modify-write: each sees the one before it on this word, and with it what was published
//! before that, so that no barrier is needed beside them.
//!
//! The bits are not a lock: nobody waits for them on the way of a packet.

use super::lock::relax;
use crate::sync::{AtomicU32, CachePadded, Ordering};

/// Frames that a producer hands to the TX ring at most before it leaves the rest to others: no
/// producer is held by the others' traffic for long (`weight_p` of the kernel's `__qdisc_run`).
pub(super) const QUOTA: usize = 256;

const IDLE: u32 = 0;
const RUNNING: u32 = 1;
const MISSED: u32 = 3;

/// The right to take out of the ring and to use the TX side.
#[derive(Debug)]
pub(super) struct RunBit(CachePadded<AtomicU32>);

impl RunBit {
    pub(super) fn new() -> Self {
        Self(CachePadded(AtomicU32::new(IDLE)))
    }

    /// Becomes the runner if there is none: one compare-and-swap. Tells a runner nothing.
    #[inline(always)]
    pub(super) fn try_begin(&self) -> bool {
        // Reading first leaves the line where it is while somebody else runs.
        self.0.load(Ordering::Relaxed) == IDLE && self.swap(IDLE, RUNNING, Ordering::Acquire)
    }

    /// Becomes the runner, or makes the one there is look again. Call after publishing frames.
    #[inline]
    pub(super) fn begin(&self) -> bool {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            // Also from missed to missed: only a swap hands our frames to whoever clears the bit.
            let to = if now == IDLE { RUNNING } else { MISSED };
            match self.0.compare_exchange_weak(now, to, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return now == IDLE,
                Err(other) => now = other,
            }
        }
    }

    /// Waits until there is no runner, and becomes it. Not for the way of a packet.
    pub(super) fn acquire(&self) {
        let mut round = 0;
        while !self.try_begin() {
            relax(&mut round);
        }
    }

    /// Stops running; false if frames came meanwhile: the caller still runs, and must look again.
    #[inline(always)]
    pub(super) fn end(&self) -> bool {
        if self.swap(RUNNING, IDLE, Ordering::Release) {
            return true;
        }
        // Acquire: the frames of those who set it are ours to see.
        self.0.swap(RUNNING, Ordering::Acquire);
        false
    }

    /// Stops running whatever came meanwhile: somebody else is known to look later.
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
