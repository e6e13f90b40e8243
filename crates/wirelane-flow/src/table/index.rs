//! A hash index of slots: open addressing over groups of one cache line.

use wirelane_os::memory;

/// The places of a group.
const WIDTH: usize = 8;
/// A free place. A lookup ends at a group that has one.
const EMPTY: u32 = u32::MAX;
/// A place that was freed in a full group. A lookup continues after such a group, as later groups
/// may have its entries.
const GRAVE: u32 = u32::MAX - 1;

/// Eight places on one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct SlotGroup {
    hashes: [u32; WIDTH],
    slots: [u32; WIDTH],
}

impl SlotGroup {
    const NEW: Self = Self { hashes: [0; WIDTH], slots: [EMPTY; WIDTH] };

    #[inline]
    fn has_empty(&self) -> bool {
        self.slots.contains(&EMPTY)
    }
}

/// Maps hashes to slots.
pub(crate) struct HashIndex {
    /// Their number is a power of two.
    groups: Vec<SlotGroup>,
    used: usize,
    graves: usize,
}

impl HashIndex {
    /// An empty index.
    pub(crate) fn new() -> Self {
        Self { groups: groups(16), used: 0, graves: 0 }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.groups.len() * size_of::<SlotGroup>()
    }

    /// The first slot with this hash that `is` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        for group in self.probe(hash) {
            for (other, slot) in group.hashes.iter().zip(&group.slots) {
                if *other == hash && *slot < GRAVE && is(*slot) {
                    return Some(*slot);
                }
            }
            if group.has_empty() {
                return None;
            }
        }
        None
    }

    /// Prefetches the group of this hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        if let Some(group) = self.groups.get(self.begin(hash)) {
            memory::prefetch(group);
        }
    }

    /// A slot with this hash in the first group, which may be the wrong one.
    #[inline]
    pub(crate) fn guess(&self, hash: u32) -> Option<u32> {
        let group = self.groups.get(self.begin(hash))?;
        let mut found = 0_usize;
        // Compares all places without a branch, because the position is unpredictable.
        for (place, other) in group.hashes.iter().enumerate() {
            found |= usize::from(*other == hash) << place;
        }
        group.slots.get(found.trailing_zeros() as usize).copied().filter(|slot| *slot < GRAVE)
    }

    /// Adds a new slot.
    pub(crate) fn insert(&mut self, hash: u32, slot: u32) {
        if (self.used + self.graves + 1) * 8 > self.groups.len() * WIDTH * 7 {
            self.rebuild();
        }
        self.used += 1;
        let grave = self.place(hash, slot);
        self.graves -= usize::from(grave);
    }

    /// Removes a slot.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        let (begin, mask) = (self.begin(hash), self.groups.len() - 1);
        for step in 0..self.groups.len() {
            let Some(group) = self.groups.get_mut((begin + step) & mask) else { return };
            let has_empty = group.has_empty();
            if let Some(place) = group.slots.iter_mut().find(|place| **place == slot) {
                *place = if has_empty { EMPTY } else { GRAVE };
                self.graves += usize::from(!has_empty);
                self.used -= 1;
                return;
            }
            if has_empty {
                return;
            }
        }
    }

    #[inline]
    fn begin(&self, hash: u32) -> usize {
        hash as usize & (self.groups.len() - 1)
    }

    #[inline]
    fn probe(&self, hash: u32) -> impl Iterator<Item = &SlotGroup> {
        let (later, first) = self.groups.split_at(self.begin(hash));
        first.iter().chain(later)
    }

    /// Stores a slot in the first free place. Returns whether that was a grave.
    fn place(&mut self, hash: u32, slot: u32) -> bool {
        let (begin, mask) = (self.begin(hash), self.groups.len() - 1);
        for step in 0..self.groups.len() {
            let Some(group) = self.groups.get_mut((begin + step) & mask) else { break };
            let places = group.hashes.iter_mut().zip(&mut group.slots);
            for (place_hash, place) in places {
                if *place >= GRAVE {
                    let was_grave = *place == GRAVE;
                    (*place_hash, *place) = (hash, slot);
                    return was_grave;
                }
            }
        }
        false
    }

    /// Removes all graves, and doubles the size if more than half of the places are used.
    #[cold]
    fn rebuild(&mut self) {
        let places = self.groups.len() * WIDTH;
        let groups = if self.used * 2 > places { self.groups.len() * 2 } else { self.groups.len() };
        let old = std::mem::replace(&mut self.groups, self::groups(groups));
        self.graves = 0;
        for group in &old {
            for (hash, slot) in group.hashes.iter().zip(&group.slots) {
                if *slot < GRAVE {
                    self.place(*hash, *slot);
                }
            }
        }
    }
}

fn groups(count: usize) -> Vec<SlotGroup> {
    let mut groups = Vec::with_capacity(count);
    memory::prefer_huge_pages(groups.spare_capacity_mut());
    groups.resize(count, SlotGroup::NEW);
    groups
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Hashes collide, so that probes continue over several groups and graves.
        #[test]
        fn as_a_map(operations in prop::collection::vec((0_u32..600, any::<bool>()), 1..3000)) {
            let mut index = HashIndex::new();
            let mut oracle = HashMap::new();
            let hash = |slot: u32| slot % 37;
            for (slot, adds) in operations {
                if adds && oracle.insert(slot, ()).is_none() {
                    index.insert(hash(slot), slot);
                } else if !adds && oracle.remove(&slot).is_some() {
                    index.remove(hash(slot), slot);
                }
                prop_assert_eq!(index.used, oracle.len());
            }
            for slot in 0..600 {
                let found = index.find(hash(slot), |one| one == slot);
                prop_assert_eq!(found, oracle.contains_key(&slot).then_some(slot));
            }
        }
    }

    #[test]
    fn a_place_costs_at_most_nineteen_bytes_each() {
        let mut index = HashIndex::new();
        for slot in 0..1_000_000_u32 {
            index.insert(slot.wrapping_mul(0x9e37_79b9), slot);
        }
        assert!(index.bytes() <= 19 * 1_000_000, "{}", index.bytes());
    }
}
