//! The memory of entries: it grows by pieces and never moves.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::entry::Entry;

/// Entries of a piece.
const PIECE: usize = 256;

/// How many flows all tables together may still hold.
#[derive(Debug)]
pub struct Room(AtomicUsize);

impl Room {
    /// Room for so many flows.
    pub fn new(flows: usize) -> Self {
        Self(AtomicUsize::new(flows))
    }

    /// Takes room for at most `wanted` flows; for how many there was.
    fn take(&self, wanted: usize) -> usize {
        let take = |left: usize| left.checked_sub(wanted.min(left));
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .map_or(0, |left| left.min(wanted))
    }
}

/// Entries by their slots.
pub(crate) struct Slab {
    pieces: Vec<Box<[Entry]>>,
    /// Slots that may be used, of all that there are.
    allowed: usize,
    free: Vec<u32>,
    /// Slots below were in use.
    begun: usize,
}

impl Slab {
    pub(crate) fn new() -> Self {
        Self { pieces: Vec::new(), allowed: 0, free: Vec::new(), begun: 0 }
    }

    /// Slots in use.
    pub(crate) fn len(&self) -> usize {
        self.begun - self.free.len()
    }

    /// Slots that were ever in use.
    pub(crate) fn begun(&self) -> usize {
        self.begun
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.len() * PIECE * size_of::<Entry>() + self.free.capacity() * size_of::<u32>()
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&Entry> {
        self.pieces.get(slot as usize / PIECE)?.get(slot as usize % PIECE)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        self.pieces.get_mut(slot as usize / PIECE)?.get_mut(slot as usize % PIECE)
    }

    /// A free slot; `None` if there is no room.
    pub(crate) fn take(&mut self, room: &Room) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if self.begun == self.allowed {
            self.allowed += room.take(PIECE - self.allowed % PIECE);
        }
        if self.begun == self.allowed {
            return None;
        }
        if self.begun == self.pieces.len() * PIECE {
            self.pieces.push(vec![Entry::NEW; PIECE].into_boxed_slice());
        }
        self.begun += 1;
        u32::try_from(self.begun - 1).ok()
    }

    pub(crate) fn give_back(&mut self, slot: u32) {
        if let Some(entry) = self.get_mut(slot) {
            *entry = Entry::NEW;
        }
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_share_the_room() {
        let room = Room::new(300);
        let mut tables = [Slab::new(), Slab::new()];
        let mut taken = 0;
        for turn in 0..1000 {
            taken += usize::from(tables[turn % 2].take(&room).is_some());
        }
        assert_eq!(taken, 300);
        tables[0].give_back(7);
        assert_eq!((tables[0].len() + tables[1].len(), tables[0].take(&room)), (299, Some(7)));
    }
}
