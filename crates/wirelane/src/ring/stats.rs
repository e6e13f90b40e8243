//! What became of the handles of a ring: retries, waits, and who kept others waiting.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::sync::Counter;
use crate::sync::lock;

/// The end of a ring that a handle works at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The handle is an [`Enqueuer`](super::Enqueuer).
    Enqueue,
    /// The handle is a [`Dequeuer`](super::Dequeuer).
    Dequeue,
}

/// What one handle of a [`Ring`](super::Ring) went through; all are counts since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandleStats {
    /// Which end it works at.
    pub end: End,
    /// The number of the handle: 0 is the first one of its end, and clones count up.
    pub id: u32,
    /// Compare-and-swaps on the shared index that another handle won.
    pub retries: u64,
    /// Batches whose publication had to wait for an earlier batch of another handle.
    pub waits: u64,
    /// Waits so long that the other thread must have been preempted, so the CPU was given away.
    pub stalled: u64,
    /// How often this handle was the one that others stalled on: it was preempted (or its
    /// [`Reservation`](super::Reservation) was kept) between claiming slots and publishing them.
    pub stalled_others: u64,
}

/// The counters of one handle, on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Entry {
    end: End,
    id: u32,
    /// The first index of the slots that the handle claimed last: how a waiter finds whom it
    /// waits for.
    pub(super) claimed: AtomicU64,
    pub(super) retries: Counter,
    pub(super) waits: Counter,
    pub(super) stalled: Counter,
    stalled_others: AtomicU64,
}

impl Entry {
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

/// The handles of a ring. Locked when handles come, when somebody asks, and once per stall.
#[derive(Debug, Default)]
pub(super) struct Registry(Mutex<Vec<Arc<Entry>>>);

impl Registry {
    pub(super) fn add(&self, end: End) -> Arc<Entry> {
        let mut entries = self.lock();
        let id = entries.iter().filter(|entry| entry.end == end).count() as u32;
        let entry = Arc::new(Entry {
            end,
            id,
            // No index that a ring which starts at 0 will ever reach.
            claimed: AtomicU64::new(u64::MAX),
            retries: Counter::default(),
            waits: Counter::default(),
            stalled: Counter::default(),
            stalled_others: AtomicU64::new(0),
        });
        entries.push(Arc::clone(&entry));
        entry
    }

    /// Blames the handle of `end` that has claimed `index`, unless it is `waiter`. A handle that
    /// was preempted before it could write down what it had claimed is not found.
    pub(super) fn blame(&self, waiter: &Entry, end: End, index: u64) {
        let entries = self.lock();
        let held = |entry: &&Arc<Entry>| {
            entry.end == end && entry.id != waiter.id && entry.claimed.load(Relaxed) == index
        };
        if let Some(entry) = entries.iter().find(held) {
            entry.stalled_others.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn stats(&self) -> Vec<HandleStats> {
        self.lock().iter().map(|entry| entry.stats()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        lock(&self.0)
    }
}
