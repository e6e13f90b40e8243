//! A timer wheel: lists of slots by expiry time.

/// The number of lists. A slot stays on one for at most this many ticks.
const LISTS: usize = 64;
/// No slot.
const NONE: u32 = u32::MAX;
/// In place of a previous slot: this value plus the list, for the first slot of a list.
const FIRST: u32 = u32::MAX - LISTS as u32;

/// The neighbours of a slot on its list.
#[derive(Clone, Copy)]
struct ListLink {
    next: u32,
    previous: u32,
}

/// A timer wheel.
pub(crate) struct Wheel {
    heads: [u32; LISTS],
    /// By slot, separate from the memory that a packet touches.
    links: Vec<ListLink>,
    /// Nanoseconds per list.
    tick: u64,
    /// Lists before this tick have expired.
    now: u64,
    /// The expiry time of the current list.
    due: u64,
}

impl Wheel {
    /// A wheel for times at most `span` ns ahead.
    pub(crate) fn new(span: u64) -> Self {
        // An expired flow waits for at most one tick.
        let tick = (span / (LISTS as u64 / 2)).clamp(1_000_000, 250_000_000);
        Self { heads: [NONE; LISTS], links: Vec::new(), tick, now: 0, due: tick }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<ListLink>()
    }

    /// Adds a slot, which is on no list, to the list of this time.
    pub(crate) fn add(&mut self, slot: u32, due: u64) {
        let turn = (due / self.tick).clamp(self.now, self.now + LISTS as u64 - 1);
        let list = turn as usize % LISTS;
        let Some(head) = self.heads.get_mut(list) else { return };
        let link = ListLink { next: *head, previous: FIRST + list as u32 };
        let after = std::mem::replace(head, slot);
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, ListLink { next: NONE, previous: NONE });
        }
        if let Some(own) = self.links.get_mut(slot as usize) {
            *own = link;
        }
        if let Some(after) = self.links.get_mut(after as usize) {
            after.previous = slot;
        }
    }

    /// Removes a slot from its list.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(&ListLink { next, previous }) = self.links.get(slot as usize) else { return };
        if previous >= FIRST {
            if let Some(head) = self.heads.get_mut((previous - FIRST) as usize) {
                *head = next;
            }
        } else if let Some(before) = self.links.get_mut(previous as usize) {
            before.next = next;
        }
        if let Some(after) = self.links.get_mut(next as usize) {
            after.previous = previous;
        }
    }

    /// The next slot on the same list.
    pub(crate) fn after(&self, slot: u32) -> Option<u32> {
        self.links.get(slot as usize).map(|link| link.next).filter(|next| *next != NONE)
    }

    /// Whether the current list has expired at this time.
    #[inline]
    pub(crate) fn is_due(&self, time: u64) -> bool {
        time >= self.due
    }

    /// Advances to this time. Returns the first slot of each expired list. The caller follows
    /// [`Wheel::after`], and reads it before adding a slot again.
    pub(crate) fn turn(&mut self, time: u64) -> impl Iterator<Item = u32> + use<> {
        let before = self.now;
        self.now = (time / self.tick).max(before);
        self.due = (self.now + 1).saturating_mul(self.tick);
        let lists = (before..self.now).take(LISTS).map(|turn| turn as usize % LISTS);
        let heads =
            lists.filter_map(|list| Some(std::mem::replace(self.heads.get_mut(list)?, NONE)));
        heads.filter(|head| *head != NONE).collect::<Vec<_>>().into_iter()
    }
}
