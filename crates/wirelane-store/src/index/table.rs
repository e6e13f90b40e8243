//! Which keys were seen, and in which extents.

use std::hash::{BuildHasher, RandomState};

/// A key that may be wider than what an index stores for most.
pub(super) trait Key: Copy + Ord {
    /// The number.
    fn wide(self) -> u128;
    /// Never the key of a table: what an empty slot holds.
    fn zero() -> Self;
}

impl Key for u32 {
    fn wide(self) -> u128 {
        self.into()
    }
    fn zero() -> Self {
        0
    }
}

impl Key for u128 {
    fn wide(self) -> u128 {
        self
    }
    fn zero() -> Self {
        0
    }
}

/// For each extent, the numbers of the keys in it.
#[derive(Default)]
pub(super) struct Log {
    entries: Vec<u32>,
    /// How many entries there were at the end of each extent.
    ends: Vec<usize>,
}

impl Log {
    #[inline]
    fn push(&mut self, key: u32) {
        self.entries.push(key);
    }

    fn end_extent(&mut self) {
        self.ends.push(self.entries.len());
    }

    /// For each key the extents that hold it, in their order.
    fn extents_by_key(&self, keys: usize) -> ExtentsByKey {
        let mut starts = vec![0_usize; keys + 1];
        for key in &self.entries {
            starts[*key as usize + 1] += 1;
        }
        for key in 0..keys {
            starts[key + 1] += starts[key];
        }
        let mut next = starts.clone();
        let mut extents = vec![0; self.entries.len()];
        let mut from = 0;
        for (extent, end) in (0_u32..).zip(&self.ends) {
            for key in &self.entries[from..*end] {
                let place = &mut next[*key as usize];
                extents[*place] = extent;
                *place += 1;
            }
            from = *end;
        }
        ExtentsByKey { starts, extents }
    }
}

struct ExtentsByKey {
    starts: Vec<usize>,
    extents: Vec<u32>,
}

impl ExtentsByKey {
    fn of(&self, key: usize) -> &[u32] {
        &self.extents[self.starts[key]..self.starts[key + 1]]
    }
}

/// Keys of at most 16 bits: every value has its place.
pub(super) struct Direct {
    /// For each value the extent that held it last, plus 1.
    seen: Box<[u32]>,
    log: Log,
    extent: u32,
}

impl Direct {
    pub(super) fn new(bits: u32) -> Self {
        let seen = vec![0; 1 << bits].into_boxed_slice();
        Self { seen, log: Log::default(), extent: 1 }
    }

    /// The extent being filled holds this value.
    #[inline]
    pub(super) fn mark(&mut self, value: u16) {
        if let Some(seen) = self.seen.get_mut(usize::from(value))
            && *seen != self.extent
        {
            *seen = self.extent;
            self.log.push(value.into());
        }
    }

    pub(super) fn end_extent(&mut self) {
        self.extent += 1;
        self.log.end_extent();
    }

    /// Hands each value and its extents to `each`, the least value first.
    pub(super) fn finish(&self, mut each: impl FnMut(u128, &[u32])) {
        let extents = self.log.extents_by_key(self.seen.len());
        for (value, seen) in self.seen.iter().enumerate() {
            if *seen != 0 {
                each(value as u128, extents.of(value));
            }
        }
    }
}

/// Keys of more than 16 bits: a hash table.
pub(super) struct Hashed<K> {
    slots: Box<[Slot<K>]>,
    /// Keys in the table, and the most there may be.
    len: usize,
    limit: usize,
    /// What makes the places of keys unknown to who sends the packets.
    seed: u64,
    log: Log,
    extent: u32,
    /// Extents with keys that found no room.
    overflow: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Slot<K> {
    key: K,
    /// The extent that held it last, plus 1; 0 in an empty slot.
    seen: u32,
    /// Its number in the log.
    number: u32,
}

impl<K: Key> Hashed<K> {
    /// A table of up to `limit` keys.
    pub(super) fn new(limit: usize) -> Self {
        let slots = empty(1 << 10);
        let seed = RandomState::new().hash_one(0) | 1;
        Self { slots, len: 0, limit, seed, log: Log::default(), extent: 1, overflow: Vec::new() }
    }

    /// The extent being filled holds this key.
    #[inline]
    pub(super) fn mark(&mut self, key: K) {
        let mask = self.slots.len() - 1;
        let mut at = place(key, self.seed) & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.seen == 0 {
                break;
            }
            if slot.key == key {
                if slot.seen != self.extent {
                    slot.seen = self.extent;
                    self.log.push(slot.number);
                }
                return;
            }
            at = (at + 1) & mask;
        }
        self.insert(key, at);
    }

    #[cold]
    fn insert(&mut self, key: K, at: usize) {
        if self.len >= self.limit {
            let extent = self.extent - 1;
            if self.overflow.last() != Some(&extent) {
                self.overflow.push(extent);
            }
            return;
        }
        let number = self.len as u32;
        self.slots[at] = Slot { key, seen: self.extent, number };
        self.log.push(number);
        self.len += 1;
        if self.len * 4 > self.slots.len() * 3 {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let more = empty(self.slots.len() * 2);
        let mask = more.len() - 1;
        let old = std::mem::replace(&mut self.slots, more);
        for slot in old.iter().filter(|slot| slot.seen != 0) {
            let mut at = place(slot.key, self.seed) & mask;
            while self.slots[at].seen != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = *slot;
        }
    }

    pub(super) fn end_extent(&mut self) {
        self.extent += 1;
        self.log.end_extent();
    }

    /// Extents that may hold keys which the table does not.
    pub(super) fn overflow(&self) -> &[u32] {
        &self.overflow
    }

    /// Hands each key and its extents to `each`, the least key first.
    pub(super) fn finish(&self, mut each: impl FnMut(u128, &[u32])) {
        let extents = self.log.extents_by_key(self.len);
        let used = self.slots.iter().filter(|slot| slot.seen != 0);
        let mut keys: Vec<(K, u32)> = used.map(|slot| (slot.key, slot.number)).collect();
        keys.sort_unstable();
        for (key, number) in keys {
            each(key.wide(), extents.of(number as usize));
        }
    }
}

fn empty<K: Key>(len: usize) -> Box<[Slot<K>]> {
    vec![Slot { key: K::zero(), seen: 0, number: 0 }; len].into_boxed_slice()
}

#[inline]
fn place<K: Key>(key: K, seed: u64) -> usize {
    let wide = key.wide();
    let product = u128::from(wide as u64 ^ seed) * 0x9E37_79B9_7F4A_7C15;
    let half = (wide >> 64) as u64 ^ product as u64 ^ (product >> 64) as u64;
    let product = u128::from(half) * u128::from(seed);
    (product as u64 ^ (product >> 64) as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(finish: impl FnOnce(&mut dyn FnMut(u128, &[u32]))) -> Vec<(u128, Vec<u32>)> {
        let mut out = Vec::new();
        finish(&mut |key, extents| out.push((key, extents.to_vec())));
        out
    }

    #[test]
    fn keys_come_in_order_with_their_extents() {
        let (mut direct, mut hashed) = (Direct::new(16), Hashed::<u32>::new(100));
        for extent in [&[7, 3, 7][..], &[], &[3, 65_535], &[0, 3]] {
            for key in extent {
                direct.mark(*key);
                hashed.mark((*key).into());
            }
            direct.end_extent();
            hashed.end_extent();
        }
        let expected = [(0, vec![3]), (3, vec![0, 2, 3]), (7, vec![0]), (65_535, vec![2])];
        assert_eq!(lists(|each| direct.finish(each)), expected);
        assert_eq!(lists(|each| hashed.finish(each)), expected);
    }

    #[test]
    fn a_table_grows_and_a_full_one_names_the_extents() {
        let mut table = Hashed::<u128>::new(5000);
        for extent in 0..3 {
            for key in 0..4000_u128 {
                table.mark(key << 64 | key);
                table.mark(key + extent * 500);
            }
            table.end_extent();
        }
        let lists = lists(|each| table.finish(each));
        assert_eq!(lists.len(), 5000);
        assert_eq!(table.overflow(), [0, 1, 2]);
        let listed = lists.iter().filter(|(_, extents)| *extents == [0, 1, 2]).count();
        assert!(listed > 3000, "{listed}");
    }
}
