//! Stops a queue whose TX ring is full, and wakes it without losing a wake-up.
//!
//! ```text
//!   transmitter                         completer
//!   ring is full                        a slot becomes free
//!   stopped = true                      ── full barrier ──
//!   ── full barrier ──                  stopped? then stopped = false, and run the queue
//!   is there room after all?
//!   then stopped = false, and continue
//! ```
//!
//! Without the barriers, both could read the old value of the other's variable, and the queue would
//! stall with an empty ring. The counterpart in Linux's drivers is `netif_tx_stop_queue`, `smp_mb`
//! and a second check (`netdev_tx_sent_queue` in `include/linux/netdevice.h`), and
//! `netdev_tx_completed_queue` on the completing side.

use crate::sync::{AtomicBool, Ordering, fence};

/// Whether the queue in front of a TX ring is stopped.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct QueueState(AtomicBool);

impl QueueState {
    pub(super) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Whether the queue must keep its frames.
    #[inline(always)]
    pub(super) fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Stops the queue, then checks again; false if there is room and the queue continues. Only the
    /// transmitter calls this, after it found the ring full.
    pub(super) fn stop(&self, mut has_room: impl FnMut() -> bool) -> bool {
        self.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if has_room() {
            // The completer may have woken the queue as well, and then runs it, which is harmless.
            self.0.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Restarts a stopped queue. True if the caller must run it. Any thread may call this, after
    /// making room.
    #[inline]
    pub(super) fn wake(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::AcqRel)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_queue_is_woken_once() {
        let state = QueueState::new();
        assert!(!state.wake() && !state.is_stopped());
        assert!(!state.stop(|| true) && !state.is_stopped());
        assert!(state.stop(|| false) && state.is_stopped());
        assert!(state.wake() && !state.wake() && !state.is_stopped());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::{Arc, AtomicU32, thread};

    /// A full ring of one slot is emptied while the queue stops. Either the second check finds the
    /// room, or the completer finds the queue stopped. It never stalls with an empty ring.
    #[test]
    fn loom_stop_and_wake_lose_no_wakeup() {
        loom::model(|| {
            let shared = Arc::new((QueueState::new(), AtomicU32::new(1)));
            let completer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.1.store(0, Ordering::Relaxed);
                    shared.0.wake()
                })
            };
            let stopped = shared.0.stop(|| shared.1.load(Ordering::Relaxed) == 0);
            let woken = completer.join().unwrap();
            assert!(!stopped || woken, "stopped for ever");
            assert!(!shared.0.is_stopped());
        });
    }
}
