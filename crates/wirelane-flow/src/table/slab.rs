//! The memory of entries. It grows by pieces, each twice as large as the previous one, and never
//! moves.

use std::sync::atomic::{AtomicUsize, Ordering};

use wirelane::Result;
use wirelane_os::memory;

use super::entry::FlowEntry;
use crate::fitting;

/// The entries of the first piece: less than a huge page.
const FIRST: usize = 4096;
/// The entries that a table takes from the room at once.
const STEP: usize = 256;

/// The number of further flows that all tables together may have.
#[derive(Debug)]
pub struct Room(AtomicUsize);

impl Room {
    /// Room for `flows` flows.
    pub fn new(flows: usize) -> Self {
        Self(AtomicUsize::new(flows))
    }

    /// Room for `flows` flows of one table, or fewer if the available memory does not suffice, with
    /// a note about that.
    ///
    /// # Errors
    /// Memory does not suffice for 1,000 flows.
    pub fn fitting(flows: usize) -> Result<(Self, Option<String>)> {
        let (had, note) = fitting::flows(flows, 1)?;
        Ok((Self::new(had), note))
    }

    /// Takes room for at most `wanted` flows. Returns the number taken.
    fn take(&self, wanted: usize) -> usize {
        let take = |left: usize| left.checked_sub(wanted.min(left));
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .map_or(0, |left| left.min(wanted))
    }
}

/// Entries by slot.
pub(crate) struct Slab {
    /// The length of each piece is its number of slots that were ever in use.
    pieces: Vec<Vec<FlowEntry>>,
    /// The number of slots taken from the room.
    allowed: usize,
    free: Vec<u32>,
    /// The number of slots that were ever in use.
    begun: usize,
}

/// The piece of a slot, and the index in the piece.
#[inline(always)]
fn place(slot: u32) -> (usize, usize) {
    let number = slot as usize / FIRST + 1;
    let piece = number.ilog2() as usize;
    (piece, slot as usize - ((1 << piece) - 1) * FIRST)
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
        self.begun * size_of::<FlowEntry>() + self.free.capacity() * size_of::<u32>()
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&FlowEntry> {
        let (piece, at) = place(slot);
        self.pieces.get(piece)?.get(at)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut FlowEntry> {
        let (piece, at) = place(slot);
        self.pieces.get_mut(piece)?.get_mut(at)
    }

    /// A free slot; `None` if there is no room.
    pub(crate) fn take(&mut self, room: &Room) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if self.begun == self.allowed {
            self.allowed += room.take(STEP - self.allowed % STEP);
        }
        if self.begun == self.allowed {
            return None;
        }
        let slot = u32::try_from(self.begun).ok()?;
        let (piece, at) = place(slot);
        if piece == self.pieces.len() {
            let mut piece = Vec::with_capacity(FIRST << piece);
            memory::prefer_huge_pages(piece.spare_capacity_mut());
            self.pieces.push(piece);
        }
        let piece = self.pieces.get_mut(piece)?;
        debug_assert_eq!(piece.len(), at);
        piece.push(FlowEntry::NEW);
        self.begun += 1;
        Some(slot)
    }

    pub(crate) fn give_back(&mut self, slot: u32) {
        if let Some(entry) = self.get_mut(slot) {
            *entry = FlowEntry::NEW;
        }
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_a_place_of_its_own() {
        let room = Room::new(20_000);
        let mut table = Slab::new();
        while let Some(slot) = table.take(&room) {
            table.get_mut(slot).unwrap().key.tunnel = slot as u16;
        }
        assert_eq!(table.len(), 20_000);
        for slot in 0..20_000 {
            assert_eq!(table.get(slot).unwrap().key.tunnel, slot as u16);
        }
        assert!(table.get(20_000).is_none() && table.get(u32::MAX).is_none());
        assert!(table.bytes() <= 20_000 * 192);
    }

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
