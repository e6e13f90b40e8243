//! The table of one thread, or of all together.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;

use super::sum::Sum;

/// How many more keys the tables that share this room may have.
pub(super) struct Room {
    left: AtomicUsize,
    /// Number of keys taken at a time, so that threads seldom contend.
    portion: usize,
}

impl Room {
    pub(super) fn new(keys: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(keys), portion: (keys / 64).clamp(1, 1024) })
    }

    /// Takes up to `wanted` keys; returns the number taken.
    fn take(&self, wanted: usize) -> usize {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left > 0).then(|| left - left.min(wanted))
        });
        taken.map_or(0, |before| before.min(wanted))
    }
}

/// Sums by key, while there is room.
pub(super) struct Table<K> {
    sums: HashMap<K, Sum, RandomState>,
    /// Packets whose key found no room.
    pub(super) unplaced: Sum,
    share: RoomShare,
}

impl<K: Hash + Eq + Copy> Table<K> {
    pub(super) fn new(room: &Arc<Room>) -> Self {
        let share = RoomShare { room: Arc::clone(room), granted: 0 };
        Self { sums: HashMap::default(), unplaced: Sum::default(), share }
    }

    /// An empty table in the same room.
    pub(super) fn next(&self) -> Self {
        Self::new(&self.share.room)
    }

    #[inline]
    pub(super) fn add(&mut self, key: K, sum: Sum) {
        match self.sums.get_mut(&key) {
            Some(known) => *known += sum,
            None => self.add_new(key, sum),
        }
    }

    #[cold]
    fn add_new(&mut self, key: K, sum: Sum) {
        if self.share.has_room(self.sums.len()) {
            self.sums.insert(key, sum);
        } else {
            self.unplaced += sum;
        }
    }

    /// Adds all of another table.
    pub(super) fn join(&mut self, other: Self) {
        let Self { sums, unplaced, share } = other;
        self.unplaced += unplaced;
        if self.sums.is_empty() && self.share.granted == 0 {
            // The other table's share is returned below.
            self.share.granted = self.share.room.take(sums.len());
            if self.share.granted == sums.len() {
                self.sums = sums;
                return;
            }
        }
        drop(share);
        for (key, sum) in sums {
            self.add(key, sum);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sums.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &Sum)> {
        self.sums.iter()
    }
}

/// A table's share of a room. Dropping it returns the share.
struct RoomShare {
    room: Arc<Room>,
    granted: usize,
}

impl RoomShare {
    /// Whether a table of `len` keys may add one more.
    fn has_room(&mut self, len: usize) -> bool {
        if len >= self.granted {
            self.granted += self.room.take(self.room.portion);
        }
        len < self.granted
    }
}

impl Drop for RoomShare {
    fn drop(&mut self) {
        self.room.left.fetch_add(self.granted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: u32) -> Sum {
        Sum::one(bytes, 1, false)
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        for keys in [0, 1, 10, 1000] {
            let mut table = Table::new(&Room::new(keys));
            for key in 0..2 * keys as u64 {
                table.add(key, one(60));
                table.add(key, one(40));
            }
            assert_eq!(table.len(), keys);
            assert_eq!(table.unplaced.sent.packets, 2 * keys as u64);
            assert!(table.iter().all(|(_, sum)| sum.sent.bytes == 100));
        }
    }

    #[test]
    fn tables_share_a_room_and_give_it_back() {
        let room = Room::new(100);
        let mut one_table = Table::new(&room);
        let mut other = one_table.next();
        for key in 0..80_u64 {
            one_table.add(key, one(1));
            other.add(key + 40, one(1));
        }
        assert!(one_table.len() + other.len() <= 100);
        let mut all = Table::new(&Room::new(90));
        let uncounted = one_table.unplaced.sent.packets + other.unplaced.sent.packets;
        let counted = (one_table.len() + other.len()) as u64;
        all.join(one_table);
        all.join(other);
        let sum: u64 = all.iter().map(|(_, sum)| sum.sent.packets).sum();
        assert_eq!(sum + all.unplaced.sent.packets, uncounted + counted);
        assert!(all.len() <= 90);
        assert_eq!(room.left.load(Ordering::Relaxed), 100);
    }

    #[test]
    fn a_join_into_nothing_keeps_to_the_limit() {
        let mut table = Table::new(&Room::new(100));
        (0..100_u64).for_each(|key| table.add(key, one(1)));
        let mut all = Table::new(&Room::new(10));
        all.join(table);
        assert_eq!((all.len(), all.unplaced.sent.packets), (10, 90));
    }
}
