//! A table with bounded memory for state between packets.

use std::collections::HashMap;
use std::hash::Hash;

/// A table of at most `limit` entries that evicts the least recently used, half of the table at a
/// time. Used entries move to the young half. When it is full, the old half is evicted.
pub(crate) struct LruTable<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half: usize,
    evicted: u64,
}

impl<K: Hash + Eq, V> LruTable<K, V> {
    pub(crate) fn new(limit: usize) -> Self {
        let half = (limit / 2).max(1);
        Self { young: HashMap::new(), old: HashMap::new(), half, evicted: 0 }
    }

    /// The number of entries evicted for lack of room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns the entry of `key`, or creates it with `make`. Calls `gone` for each evicted entry.
    pub(crate) fn entry(
        &mut self,
        key: K,
        make: impl FnOnce() -> V,
        mut gone: impl FnMut(V),
    ) -> &mut V {
        let kept = self.old.remove(&key);
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            let young = std::mem::take(&mut self.young);
            let old = std::mem::replace(&mut self.old, young);
            self.evicted += old.len() as u64;
            old.into_values().for_each(&mut gone);
        }
        self.young.entry(key).or_insert_with(|| kept.unwrap_or_else(make))
    }

    /// The entry of `key`, if there is one.
    pub(crate) fn existing(&mut self, key: &K) -> Option<&mut V> {
        match self.young.get_mut(key) {
            Some(value) => Some(value),
            None => self.old.get_mut(key),
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    /// Removes all entries.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = V> {
        let old = std::mem::take(&mut self.old);
        old.into_values().chain(std::mem::take(&mut self.young).into_values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_are_counted() {
        let mut table = LruTable::new(4);
        let mut gone = Vec::new();
        for key in 0..6 {
            table.entry(key, || key, |value| gone.push(value));
            // Key 0 is always in use.
            table.entry(0, || unreachable!(), |value| gone.push(value));
        }
        assert!(table.existing(&0).is_some() && table.existing(&5).is_some());
        assert_eq!(table.evicted(), gone.len() as u64);
        assert!(!gone.is_empty() && !gone.contains(&0), "{gone:?}");
        let left = table.drain().count();
        assert_eq!(left + gone.len(), 6);
        assert!(left <= 4);
    }
}
