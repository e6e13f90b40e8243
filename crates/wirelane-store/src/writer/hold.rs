//! Extents that wait in memory for a trigger.

use std::collections::VecDeque;
use std::sync::Arc;

use super::filled::FilledBlocks;
use super::pre_trigger::{Fate, PreTrigger};
use super::status::Counts;

/// The extents of a lane that a pre-trigger holds. Without a pre-trigger, none.
pub(crate) struct Hold {
    pre_trigger: Option<Arc<PreTrigger>>,
    /// In order of arrival.
    held: VecDeque<FilledBlocks>,
    /// The most that may be held: receiving needs the other buffers.
    most: usize,
    /// The index of the first extent not decided yet.
    fresh: usize,
    /// The pre-trigger's trigger count at the last decision.
    fired: u64,
    /// Time of the last packet.
    now: u64,
    forgotten: Counts,
    cut: Counts,
}

/// Packets outside all windows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forgotten {
    /// All such packets.
    pub(crate) all: Counts,
    /// Packets dropped for lack of memory, which a later trigger could have included.
    pub(crate) cut: Counts,
}

impl Hold {
    /// For a lane with this number of buffers.
    pub(crate) fn new(pre_trigger: Option<Arc<PreTrigger>>, buffers: usize) -> Self {
        Self {
            pre_trigger,
            held: VecDeque::new(),
            most: buffers - (buffers / 8).max(2).min(buffers),
            fresh: 0,
            fired: 0,
            now: 0,
            forgotten: Counts::default(),
            cut: Counts::default(),
        }
    }

    /// Takes an extent. An extent to write is queued now, or by [`Hold::sort`].
    pub(crate) fn take(&mut self, filled: FilledBlocks, queue: &mut VecDeque<FilledBlocks>) {
        let Some(pre_trigger) = &self.pre_trigger else { return queue.push_back(filled) };
        if filled.counts.packets == 0 {
            // Only counters: they are written with the packets around them.
            if pre_trigger.is_open(self.now) {
                queue.push_back(filled);
            }
            return;
        }
        self.now = filled.newest;
        self.held.push_back(filled);
    }

    /// Decides on held extents. True if one was queued or dropped.
    pub(crate) fn sort(&mut self, queue: &mut VecDeque<FilledBlocks>) -> bool {
        let Some(pre_trigger) = self.pre_trigger.clone() else { return false };
        let fired = pre_trigger.fired();
        if fired == self.fired && self.fresh == self.held.len() {
            return false;
        }
        // A trigger may affect all of them.
        let first = if fired == self.fired { self.fresh } else { 0 };
        self.fired = fired;
        for filled in self.held.split_off(first) {
            match pre_trigger.fate(filled.oldest, filled.newest, self.now) {
                Fate::Write => queue.push_back(filled),
                Fate::Hold => self.held.push_back(filled),
                Fate::Forget => self.forgotten.add(filled.counts),
            }
        }
        // Most become old in their order. The others are decided at the next trigger, or when
        // memory is short.
        let now = self.now;
        let is_old =
            |it: &FilledBlocks| pre_trigger.fate(it.oldest, it.newest, now) == Fate::Forget;
        while self.held.front().is_some_and(is_old) {
            self.forget_first();
        }
        while self.held.len() > self.most {
            let counts = self.forget_first();
            self.cut.add(counts);
        }
        self.fresh = self.held.len();
        true
    }

    /// Drops all held extents, because no trigger follows. True if there were any.
    pub(crate) fn end(&mut self) -> bool {
        let any = !self.held.is_empty();
        while !self.held.is_empty() {
            self.forget_first();
        }
        self.fresh = 0;
        any
    }

    /// Packets that are held now.
    pub(crate) fn held(&self) -> Counts {
        let mut held = Counts::default();
        self.held.iter().for_each(|filled| held.add(filled.counts));
        held
    }

    /// Packets dropped since the last call.
    pub(crate) fn take_forgotten(&mut self) -> Forgotten {
        Forgotten { all: std::mem::take(&mut self.forgotten), cut: std::mem::take(&mut self.cut) }
    }

    fn forget_first(&mut self) -> Counts {
        let counts = self.held.pop_front().map(|filled| filled.counts).unwrap_or_default();
        self.forgotten.add(counts);
        counts
    }
}
