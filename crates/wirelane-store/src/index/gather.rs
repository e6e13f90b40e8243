//! Turns conversations and their extents into the keys of a field and their extents.

use super::table::{KeyNumbers, Lists};
use super::written::WrittenField;
use crate::key::Field;

/// Fewer extents are sorted; more are collected in a bitmap.
const FEW: usize = 32;

/// A key and the number of a conversation with it.
pub(super) trait KeyPair: Copy + Ord {
    /// The key.
    fn key(self) -> u128;
    /// The number.
    fn number(self) -> u32;
}

/// A key of up to 32 bits with a number, so that sorting compares one number.
pub(super) fn pair(key: u32, number: u32) -> u64 {
    u64::from(key) << 32 | u64::from(number)
}

impl KeyPair for u64 {
    fn key(self) -> u128 {
        (self >> 32).into()
    }
    fn number(self) -> u32 {
        self as u32
    }
}

impl KeyPair for (u128, u32) {
    fn key(self) -> u128 {
        self.0
    }
    fn number(self) -> u32 {
        self.1
    }
}

/// The field with these keys, each with all extents of its conversations.
pub(super) fn gather<P: KeyPair>(
    field: Field,
    mut pairs: Vec<P>,
    lists: &Lists,
    numbers: &KeyNumbers,
) -> WrittenField {
    pairs.sort_unstable();
    let mut out = WrittenField::new(field, numbers.overflow());
    let mut union = Union { words: vec![0; numbers.extents().div_ceil(64)], extents: Vec::new() };
    for same in pairs.chunk_by(|one, next| one.key() == next.key()) {
        let key = same[0].key();
        match same {
            [one] => out.add(key, lists.of(one.number())),
            _ => out.add(key, union.of(same, lists)),
        }
    }
    out.end()
}

/// Unites several lists.
struct Union {
    /// A bit for each extent; all are 0 between calls.
    words: Vec<u64>,
    extents: Vec<u32>,
}

impl Union {
    fn of<P: KeyPair>(&mut self, pairs: &[P], lists: &Lists) -> &[u32] {
        self.extents.clear();
        let all = pairs.iter().map(|pair| lists.of(pair.number()));
        if all.clone().map(<[u32]>::len).sum::<usize>() <= FEW {
            all.for_each(|list| self.extents.extend_from_slice(list));
            self.extents.sort_unstable();
            self.extents.dedup();
            return &self.extents;
        }
        for extent in all.flatten() {
            self.words[*extent as usize / 64] |= 1 << (extent % 64);
        }
        for (at, word) in (0_u32..).zip(&mut self.words) {
            while *word != 0 {
                self.extents.push(at * 64 + word.trailing_zeros());
                *word &= *word - 1;
            }
        }
        &self.extents
    }
}
