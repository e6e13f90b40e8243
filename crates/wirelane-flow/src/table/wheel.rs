//! When to look at which entry again: lists of slots by time, in turns.

use super::slab::Slab;

/// Lists. Entries lie on them for at most this many ticks.
const LISTS: usize = 64;
/// No slot.
const NONE: u32 = u32::MAX;
/// In place of a previous slot: the first of a list, counted from here on.
const FIRST: u32 = u32::MAX - LISTS as u32;

/// Lists of slots by time.
pub(crate) struct Wheel {
    heads: [u32; LISTS],
    /// Nanoseconds per list.
    tick: u64,
    /// Lists before this one are over.
    now: u64,
}

impl Wheel {
    /// For times at most `span` ns ahead.
    pub(crate) fn new(span: u64) -> Self {
        Self { heads: [NONE; LISTS], tick: (span / (LISTS as u64 / 2)).max(1_000_000), now: 0 }
    }

    /// Puts a slot, which is on no list, on the one of this time.
    pub(crate) fn add(&mut self, slab: &mut Slab, slot: u32, due: u64) {
        let turn = (due / self.tick).clamp(self.now, self.now + LISTS as u64 - 1);
        let list = turn as usize % LISTS;
        let Some(head) = self.heads.get_mut(list) else { return };
        let next = std::mem::replace(head, slot);
        if let Some(entry) = slab.get_mut(slot) {
            (entry.next, entry.previous) = (next, FIRST + list as u32);
        }
        if let Some(after) = slab.get_mut(next) {
            after.previous = slot;
        }
    }

    /// Takes a slot off its list.
    pub(crate) fn remove(&mut self, slab: &mut Slab, slot: u32) {
        let Some((previous, next)) = slab.get(slot).map(|one| (one.previous, one.next)) else {
            return;
        };
        if previous >= FIRST {
            if let Some(head) = self.heads.get_mut((previous - FIRST) as usize) {
                *head = next;
            }
        } else if let Some(before) = slab.get_mut(previous) {
            before.next = next;
        }
        if let Some(after) = slab.get_mut(next) {
            after.previous = previous;
        }
    }

    /// Whether a list is over at this time.
    #[inline]
    pub(crate) fn is_due(&self, time: u64) -> bool {
        time / self.tick > self.now
    }

    /// Turns on to this time, and gives the first slot of each list that is over. Who takes them follows `next`.
    pub(crate) fn turn(&mut self, time: u64) -> impl Iterator<Item = u32> + use<> {
        let before = self.now;
        self.now = (time / self.tick).max(before);
        let lists = (before..self.now).take(LISTS).map(|turn| turn as usize % LISTS);
        let heads =
            lists.filter_map(|list| Some(std::mem::replace(self.heads.get_mut(list)?, NONE)));
        heads.filter(|head| *head != NONE).collect::<Vec<_>>().into_iter()
    }
}
