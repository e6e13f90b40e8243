//! The state of a bounded ring, and the common part of its handles.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;

use super::side::{Claim, Indices, SideView};
use super::slots::Slots;
use super::stats::{End, HandleCounters, Registry};
use crate::sync::{Arc, CachePadded, Mutex, Ordering};

/// The state that all handles share.
pub(super) struct RingMemory<T> {
    pub(super) producers: CachePadded<Indices>,
    pub(super) consumers: CachePadded<Indices>,
    pub(super) slots: CachePadded<Slots<T>>,
    pub(super) holes: Mutex<Vec<Claim>>,
    pub(super) registry: Registry,
}

/// The common part of both kinds of handle.
pub(super) struct RingHandle<T> {
    pub(super) shared: Arc<RingMemory<T>>,
    pub(super) entry: std::sync::Arc<HandleCounters>,
    pub(super) view: SideView,
    not_sync: PhantomData<Cell<()>>,
}

impl<T> RingHandle<T> {
    pub(super) fn new(shared: &Arc<RingMemory<T>>, end: End, view: SideView) -> Self {
        let entry = shared.registry.add(end);
        Self { shared: Arc::clone(shared), entry, view, not_sync: PhantomData }
    }
}

impl<T> RingMemory<T> {
    #[inline]
    pub(super) fn len(&self) -> usize {
        // Consumers first, so that the difference is never negative. It may be too large by
        // elements that passed in between.
        let from = self.consumers.published(Ordering::Acquire);
        let to = self.producers.published(Ordering::Acquire);
        to.wrapping_sub(from).min(self.slots.size()) as usize
    }

    /// Records a claimed range that will never be written. Call it before publishing the range.
    pub(super) fn add_hole(&self, hole: Claim) {
        let mut holes = self.holes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        holes.push(hole);
        self.producers.holes.store(holes.len() as u64, Ordering::Relaxed);
    }

    /// The written parts of a consumer's claim, in order. Removes its holes.
    #[cold]
    pub(super) fn filled(&self, claim: Claim) -> Vec<Claim> {
        let mut holes = self.holes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut filled = vec![claim];
        let mut left = Vec::with_capacity(holes.len());
        for hole in holes.iter() {
            left.extend(hole.without(claim));
            filled = filled.iter().flat_map(|run| run.without(*hole)).collect();
        }
        *holes = left;
        self.producers.holes.store(holes.len() as u64, Ordering::Relaxed);
        filled
    }
}

impl<T> Drop for RingMemory<T> {
    fn drop(&mut self) {
        let start = self.consumers.published(Ordering::Relaxed);
        let count = self.producers.published(Ordering::Relaxed).wrapping_sub(start);
        for run in self.filled(Claim { start, count }) {
            for i in 0..run.count {
                // SAFETY: all handles are gone; published slots outside holes contain elements.
                drop(unsafe { self.slots.read(run.start.wrapping_add(i)) });
            }
        }
    }
}
