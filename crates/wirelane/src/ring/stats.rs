//! Counters of a ring's handles: retries, waits, and stalls of other handles.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::sync::Counter;
use crate::sync::lock;

/// The end of a handle in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The handle is an [`Enqueuer`](super::Enqueuer).
    Enqueue,
    /// The handle is a [`Dequeuer`](super::Dequeuer).
    Dequeue,
}

/// The counters of one handle of a [`Ring`](super::Ring), since its creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandleStats {
    /// Its end.
    pub end: End,
    /// The number of the handle: 0 is the first one of its end; clones have the next numbers.
    pub id: u32,
    /// Failed compare-and-swaps on the shared index, which another handle won.
    pub retries: u64,
    /// Batches that were published after a wait for an earlier batch of another handle.
    pub waits: u64,
    /// Waits in which the thread yielded the CPU, because the other one was probably preempted.
    pub stalled: u64,
    /// How often other handles stalled on this one: it was preempted between claiming slots and
    /// publishing them, or its [`Reservation`](super::bounded::Reservation) was kept.
    pub stalled_others: u64,
}

/// The counters of one handle, on separate cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct HandleCounters {
    end: End,
    id: u32,
    /// The first index of the handle's last claim, by which a waiter finds the handle that it waits
    /// for.
    pub(super) claimed: AtomicU64,
    pub(super) retries: Counter,
    pub(super) waits: Counter,
    pub(super) stalled: Counter,
    stalled_others: AtomicU64,
}

impl HandleCounters {
    pub(super) fn stats(&self) -> HandleStats {
        HandleStats {
            end: self.end,
            id: self.id,
            retries: self.retries.value(),
            waits: self.waits.value(),
            stalled: self.stalled.value(),
            stalled_others: self.stalled_others.load(Relaxed),
        }
    }
}

/// The handles of a ring. The lock is taken for each new handle, each query and each stall.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Vec<Arc<HandleCounters>>>);

impl Registry {
    pub(super) fn add(&self, end: End) -> Arc<HandleCounters> {
        let mut entries = self.lock();
        let id = entries.iter().filter(|entry| entry.end == end).count() as u32;
        let entry = Arc::new(HandleCounters {
            end,
            id,
            // An index that a ring starting at 0 never reaches.
            claimed: AtomicU64::new(u64::MAX),
            retries: Counter::default(),
            waits: Counter::default(),
            stalled: Counter::default(),
            stalled_others: AtomicU64::new(0),
        });
        entries.push(Arc::clone(&entry));
        entry
    }

    /// Counts a stall for the handle of `end` that has claimed `index`, unless it is `waiter`. A
    /// handle that was preempted before it recorded its claim is not found.
    pub(super) fn blame(&self, waiter: &HandleCounters, end: End, index: u64) {
        let entries = self.lock();
        let held = |entry: &&Arc<HandleCounters>| {
            entry.end == end && entry.id != waiter.id && entry.claimed.load(Relaxed) == index
        };
        if let Some(entry) = entries.iter().find(held) {
            entry.stalled_others.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn stats(&self) -> Vec<HandleStats> {
        self.lock().iter().map(|entry| entry.stats()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<HandleCounters>>> {
        lock(&self.0)
    }
}
