//! The range of a key after a comparison.

use wirelane_filter::op::Cond;

/// The smallest and the largest value. The range is empty if the first is above the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Range {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Range {
    const EMPTY: Self = Self { first: 1, last: 0 };

    /// All values with only these bits.
    pub(super) fn full(key_mask: u32) -> Self {
        Self { first: 0, last: key_mask }
    }

    pub(super) fn is_empty(self) -> bool {
        self.first > self.last
    }

    /// The value, if there is only one.
    pub(super) fn exact(self) -> Option<u32> {
        (self.first == self.last).then_some(self.first)
    }

    pub(super) fn meet(self, other: Self) -> Self {
        Self { first: self.first.max(other.first), last: self.last.min(other.last) }
    }

    /// The range of `bytes & key_mask` if comparing `bytes & mask` with `right` gives `holds`. A
    /// wider range is correct, too.
    pub(super) fn of(cond: Cond, right: u32, holds: bool, mask: u32, key_mask: u32) -> Self {
        let all = Self::full(key_mask);
        let (seen, unseen) = (mask & key_mask, key_mask & !mask);
        match (cond, holds) {
            (Cond::Equal, true) if right & !mask != 0 => Self::EMPTY,
            (Cond::Equal, true) if is_low(unseen) => {
                let first = right & seen;
                Self { first, last: first | unseen }
            }
            (Cond::Set, true) if mask & right == 0 => Self::EMPTY,
            (Cond::Set, false) => {
                let clear = seen & right;
                let rest = key_mask & !clear;
                if is_low(rest) { Self { first: 0, last: rest } } else { all }
            }
            (Cond::GreaterEqual, true) if right == 0 => all,
            (Cond::GreaterEqual, false) if right == 0 => Self::EMPTY,
            (Cond::GreaterEqual, _) => Self::of(Cond::Greater, right - 1, holds, mask, key_mask),
            (Cond::Greater, true) if right >= mask => Self::EMPTY,
            // Bits that were not compared can only increase the key; compared bits outside the key
            // may have decided.
            (Cond::Greater, true) if mask & !key_mask == 0 => Self { first: right + 1, ..all },
            (Cond::Greater, false) if mask & !key_mask == 0 && is_low(unseen) => {
                Self { first: 0, last: key_mask.min(right | unseen) }
            }
            _ => all,
        }
    }
}

/// Whether these are the lowest bits.
fn is_low(bits: u32) -> bool {
    bits & bits.wrapping_add(1) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte that compares so is inside the range.
    #[test]
    fn ranges_hold_every_byte_that_compares_so() {
        for key_mask in [0xff, 0xf0, 0x0f, 0x3f] {
            for mask in [0, 1, 0x07, 0x0f, 0x10, 0x55, 0x7f, 0x80, 0xc0, 0xf0, 0xfe, 0xff] {
                for cond in [Cond::Equal, Cond::Greater, Cond::GreaterEqual, Cond::Set] {
                    for right in (0..=0x104).step_by(3).chain([0x40, 0xf0, 0xff]) {
                        check(cond, right, mask, key_mask);
                    }
                }
            }
        }
    }

    fn check(cond: Cond, right: u32, mask: u32, key_mask: u32) {
        for holds in [false, true] {
            let range = Range::of(cond, right, holds, mask, key_mask);
            for bytes in 0..=0xff_u32 {
                let left = bytes & mask;
                let outcome = match cond {
                    Cond::Equal => left == right,
                    Cond::Greater => left > right,
                    Cond::GreaterEqual => left >= right,
                    Cond::Set => left & right != 0,
                };
                let key = bytes & key_mask;
                assert!(
                    outcome != holds || (range.first <= key && key <= range.last),
                    "{cond:?} {right:#x} {holds}, {mask:#x} of {key_mask:#x}: {range:?}, {key:#x}"
                );
            }
        }
    }

    #[test]
    fn ranges_are_narrow() {
        let word = u32::MAX;
        let of = |cond, right, holds, mask| {
            let range = Range::of(cond, right, holds, mask, word);
            (range.first, range.last)
        };
        assert_eq!(of(Cond::Equal, 7, true, word), (7, 7));
        assert_eq!(of(Cond::Equal, 0x0a00_0000, true, 0xff00_0000), (0x0a00_0000, 0x0aff_ffff));
        assert_eq!(of(Cond::Set, 0xf000_0000, false, word), (0, 0x0fff_ffff));
        assert_eq!(of(Cond::GreaterEqual, 100, true, word), (100, word));
        assert_eq!(of(Cond::Greater, 200, false, word), (0, 200));
        assert!(Range::of(Cond::Equal, 0x101, true, 0xff, 0xff).is_empty());
    }
}
