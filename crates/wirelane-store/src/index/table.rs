//! Records which keys occur in which extents.

use std::hash::{BuildHasher, RandomState};

/// For each extent, the numbers of the keys in it, each once.
#[derive(Default)]
struct ExtentLog {
    entries: Vec<u32>,
    /// The number of entries at the end of each extent.
    ends: Vec<usize>,
}

impl ExtentLog {
    fn end_extent(&mut self) {
        self.ends.push(self.entries.len());
    }

    /// For each of `count` keys, the extents that contain it.
    fn lists(&self, count: usize) -> Lists {
        let mut starts = vec![0; count + 1];
        for number in &self.entries {
            starts[*number as usize] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        // Each start is the end of its list now, and decreases while the extents are visited
        // backwards.
        let mut extents = vec![0; self.entries.len()];
        for extent in (0..self.ends.len()).rev() {
            let begin = if extent == 0 { 0 } else { self.ends[extent - 1] };
            for number in &self.entries[begin..self.ends[extent]] {
                let place = &mut starts[*number as usize];
                *place -= 1;
                extents[*place] = extent as u32;
            }
        }
        Lists { starts, extents }
    }
}

/// For each key, the extents that contain it, in order.
pub(super) struct Lists {
    starts: Vec<usize>,
    extents: Vec<u32>,
}

impl Lists {
    pub(super) fn of(&self, number: u32) -> &[u32] {
        let at = number as usize;
        &self.extents[self.starts[at]..self.starts[at + 1]]
    }
}

/// Keys of at most 16 bits: every value has a slot, and is its own number.
pub(super) struct Direct {
    /// For each value, the last extent with it, plus 1.
    seen: Box<[u32]>,
    extent: u32,
    log: ExtentLog,
}

impl Direct {
    pub(super) fn new(bits: u32) -> Self {
        let seen = vec![0; 1 << bits].into_boxed_slice();
        Self { seen, extent: 1, log: ExtentLog::default() }
    }

    /// Adds a value of the current extent.
    #[inline]
    pub(super) fn mark(&mut self, value: u16) {
        if let Some(seen) = self.seen.get_mut(usize::from(value))
            && *seen != self.extent
        {
            *seen = self.extent;
            self.log.entries.push(value.into());
        }
    }

    pub(super) fn end_extent(&mut self) {
        self.extent += 1;
        self.log.end_extent();
    }

    /// The values seen, in order.
    pub(super) fn values(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.seen).filter(|(_, seen)| **seen != 0).map(|(value, _)| value)
    }

    /// The extents of each value.
    pub(super) fn lists(&self) -> Lists {
        self.log.lists(self.seen.len())
    }
}

/// Assigns numbers to keys in order of first occurrence, and logs them.
pub(super) struct KeyNumbers {
    count: u32,
    limit: u32,
    extent: u32,
    log: ExtentLog,
    /// Extents with keys beyond the limit.
    overflow: Vec<u32>,
}

impl KeyNumbers {
    /// Assigns up to `limit` numbers.
    pub(super) fn new(limit: u32) -> Self {
        Self { count: 0, limit, extent: 1, log: ExtentLog::default(), overflow: Vec::new() }
    }

    pub(super) fn end_extent(&mut self) {
        self.extent += 1;
        self.log.end_extent();
    }

    /// The extents of each number.
    pub(super) fn lists(&self) -> Lists {
        self.log.lists(self.count as usize)
    }

    /// The number of extents.
    pub(super) fn extents(&self) -> usize {
        self.log.ends.len()
    }

    /// Extents with keys beyond the limit.
    pub(super) fn overflow(&self) -> &[u32] {
        &self.overflow
    }

    /// The number of a new key in the current extent; `None` beyond the limit.
    fn next(&mut self) -> Option<u32> {
        if self.count < self.limit {
            self.log.entries.push(self.count);
            self.count += 1;
            return Some(self.count - 1);
        }
        let extent = self.extent - 1;
        if self.overflow.last() != Some(&extent) {
            self.overflow.push(extent);
        }
        None
    }
}

/// A hash table of keys of `N` words.
pub(super) struct Hashed<const N: usize> {
    /// A power of two.
    slots: Box<[KeySlot<N>]>,
    len: usize,
    /// Makes the hash unpredictable for senders of packets.
    seeds: [u64; 2],
}

#[derive(Clone, Copy)]
struct KeySlot<const N: usize> {
    key: [u64; N],
    /// The last extent with it, plus 1; 0 in an empty slot.
    seen: u32,
    number: u32,
}

impl<const N: usize> Hashed<N> {
    pub(super) fn new() -> Self {
        let random = RandomState::new();
        Self { slots: empty(1 << 10), len: 0, seeds: [0, 1].map(|seed| random.hash_one(seed)) }
    }

    /// Adds a key of the current extent.
    #[inline]
    pub(super) fn mark(&mut self, key: [u64; N], numbers: &mut KeyNumbers) {
        let mask = self.slots.len() - 1;
        let mut at = place(&key, self.seeds) & mask;
        loop {
            let slot = &mut self.slots[at & mask];
            if slot.seen == 0 {
                return self.insert(key, at, numbers);
            }
            if slot.key == key {
                if slot.seen != numbers.extent {
                    slot.seen = numbers.extent;
                    numbers.log.entries.push(slot.number);
                }
                return;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn insert(&mut self, key: [u64; N], at: usize, numbers: &mut KeyNumbers) {
        let Some(number) = numbers.next() else { return };
        self.slots[at] = KeySlot { key, seen: numbers.extent, number };
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
            let mut at = place(&slot.key, self.seeds) & mask;
            while self.slots[at].seen != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = *slot;
        }
    }

    /// The keys, in no order, with their numbers.
    pub(super) fn into_keys(self) -> impl Iterator<Item = ([u64; N], u32)> {
        self.slots.into_iter().filter(|slot| slot.seen != 0).map(|slot| (slot.key, slot.number))
    }
}

fn empty<const N: usize>(len: usize) -> Box<[KeySlot<N>]> {
    vec![KeySlot { key: [0; N], seen: 0, number: 0 }; len].into_boxed_slice()
}

#[inline]
fn place<const N: usize>(key: &[u64; N], seeds: [u64; 2]) -> usize {
    let [mut hash, other] = seeds;
    for pair in key.chunks(2) {
        let product =
            u128::from(pair[0] ^ hash) * u128::from(pair.get(1).copied().unwrap_or(0) ^ other);
        hash = product as u64 ^ (product >> 64) as u64;
    }
    hash as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_with_their_extents() {
        let (mut direct, mut hashed) = (Direct::new(16), Hashed::<2>::new());
        let mut numbers = KeyNumbers::new(100);
        for extent in [&[7, 3, 7][..], &[], &[3, 65_535], &[0, 3]] {
            for key in extent {
                direct.mark(*key);
                hashed.mark([0, (*key).into()], &mut numbers);
            }
            direct.end_extent();
            numbers.end_extent();
        }
        let expected = [(0, vec![3]), (3, vec![0, 2, 3]), (7, vec![0]), (65_535, vec![2])];
        let lists = direct.lists();
        let of = |value| (value, lists.of(value).to_vec());
        assert_eq!(direct.values().map(of).collect::<Vec<_>>(), expected);
        let lists = numbers.lists();
        let of = |(key, number): ([u64; 2], u32)| (key[1] as u32, lists.of(number).to_vec());
        let mut found: Vec<_> = hashed.into_keys().map(of).collect();
        found.sort();
        assert_eq!(found, expected);
        assert_eq!(numbers.overflow(), []);
    }

    #[test]
    fn a_table_grows_and_the_limit_names_the_extents() {
        let (mut table, mut numbers) = (Hashed::<5>::new(), KeyNumbers::new(5000));
        let key = |at: u64| [at << 40, 0, at, 0, at];
        for extent in 0..4 {
            for at in (0..4000).filter(|_| extent != 2) {
                table.mark(key(at + extent * 500), &mut numbers);
            }
            numbers.end_extent();
        }
        let lists = numbers.lists();
        let keys: Vec<_> = table.into_keys().collect();
        assert_eq!(keys.len(), 5000);
        assert_eq!(numbers.overflow(), [3]);
        for (key, number) in keys {
            let expected: &[u32] = match key[4] {
                0..500 => &[0],
                500..1500 => &[0, 1],
                1500..4000 => &[0, 1, 3],
                4000..4500 => &[1, 3],
                _ => &[3],
            };
            assert_eq!(lists.of(number), expected);
        }
    }
}
