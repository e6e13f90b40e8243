//! A set of extents of one segment.

/// Which extents of a segment: one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtentSet {
    words: Vec<u64>,
    len: usize,
}

impl ExtentSet {
    /// The empty set of `len` extents.
    #[must_use]
    pub fn none(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    /// All of `len` extents.
    #[must_use]
    pub fn all(len: usize) -> Self {
        let mut set = Self { words: vec![u64::MAX; len.div_ceil(64)], len };
        if let Some(last) = set.words.last_mut()
            && !len.is_multiple_of(64)
        {
            *last >>= 64 - len % 64;
        }
        set
    }

    /// How many extents the segment has.
    #[must_use]
    pub fn universe(&self) -> usize {
        self.len
    }

    /// How many are in the set.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Whether this extent is in the set.
    #[must_use]
    pub fn contains(&self, extent: usize) -> bool {
        extent < self.len && self.words[extent / 64] >> (extent % 64) & 1 == 1
    }

    /// Adds an extent. Ignores an extent that the segment does not have.
    pub fn insert(&mut self, extent: usize) {
        if extent < self.len {
            self.words[extent / 64] |= 1 << (extent % 64);
        }
    }

    /// Removes an extent.
    pub fn remove(&mut self, extent: usize) {
        if extent < self.len {
            self.words[extent / 64] &= !(1 << (extent % 64));
        }
    }

    /// Adds extents: `e` where bit `e % 8` of byte `e / 8` is set. Every bit must be an extent of
    /// the segment.
    pub(crate) fn insert_bitmap(&mut self, bitmap: &[u8]) {
        for (word, bytes) in self.words.iter_mut().zip(bitmap.chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            *word |= u64::from_le_bytes(eight);
        }
    }

    /// Intersects with the other set, which is of the same segment.
    pub fn intersect(&mut self, other: &Self) {
        debug_assert_eq!(self.len, other.len);
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// Adds the other set, which is of the same segment.
    pub fn unite(&mut self, other: &Self) {
        debug_assert_eq!(self.len, other.len);
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// The extents in the set, in their order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(i, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(i * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_was_put_in() {
        for len in [0, 1, 63, 64, 65, 200] {
            let mut set = ExtentSet::none(len);
            assert!(set.is_empty());
            for extent in [0, 5, 63, 64, 199, 200] {
                set.insert(extent);
                assert_eq!(set.contains(extent), extent < len);
            }
            let all = ExtentSet::all(len);
            assert_eq!(all.count(), len);
            assert_eq!(all.iter().collect::<Vec<_>>(), (0..len).collect::<Vec<_>>());
            let mut both = all.clone();
            both.intersect(&set);
            assert_eq!(both, set);
            both.unite(&all);
            assert_eq!(both, all);
            both.remove(63);
            both.remove(200);
            assert_eq!(both.count(), len - usize::from(len > 63));
            assert!(!both.contains(63));
        }
    }
}
