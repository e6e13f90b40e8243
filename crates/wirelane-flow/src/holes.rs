//! Missing TCP sequence numbers. A later segment that fills them is out of order and not a
//! retransmission.

use std::collections::HashMap;

/// The most holes of one direction.
const EACH: usize = 8;
/// The most directions with holes.
const MOST: usize = 65_536;
/// A larger gap means that the capture was interrupted.
const LONGEST: u32 = 1 << 24;

/// The holes of a direction, each with begin and end.
#[derive(Clone, Debug, Default)]
pub(crate) struct SequenceHoles(Vec<(u32, u32)>);

impl SequenceHoles {
    /// Notes missing sequence numbers. Forgets the oldest hole if there are too many.
    pub(crate) fn add(&mut self, begin: u32, end: u32) {
        if is_too_long(begin, end) {
            return;
        }
        if self.0.len() == EACH {
            self.0.remove(0);
        }
        self.0.push((begin, end));
    }

    /// Fills holes with late sequence numbers. Returns how many were missing.
    pub(crate) fn fill(&mut self, begin: u32, end: u32) -> u32 {
        let mut filled = 0;
        let mut left = Vec::with_capacity(self.0.len() + 1);
        for &(from, to) in &self.0 {
            // Computed relative to the hole, so that a wrap of the sequence numbers does not
            // matter.
            let length = i64::from(to.wrapping_sub(from));
            let first = i64::from(begin.wrapping_sub(from) as i32).clamp(0, length);
            let last = i64::from(end.wrapping_sub(from) as i32).clamp(0, length);
            if first >= last {
                left.push((from, to));
                continue;
            }
            filled += (last - first) as u32;
            if first > 0 {
                left.push((from, from.wrapping_add(first as u32)));
            }
            if last < length {
                left.push((from.wrapping_add(last as u32), to));
            }
        }
        left.truncate(EACH);
        self.0 = left;
        filled
    }
}

fn is_too_long(begin: u32, end: u32) -> bool {
    end.wrapping_sub(begin) > LONGEST
}

/// The holes of all flows of a table. Most flows have none.
#[derive(Default)]
pub(crate) struct AllHoles(HashMap<(u32, bool), SequenceHoles>);

impl AllHoles {
    /// Notes missing sequence numbers of a direction. Returns whether the direction has holes.
    pub(crate) fn add(&mut self, slot: u32, is_reversed: bool, begin: u32, end: u32) -> bool {
        let is_known = self.0.contains_key(&(slot, is_reversed));
        if is_too_long(begin, end) || self.0.len() >= MOST && !is_known {
            return is_known;
        }
        self.0.entry((slot, is_reversed)).or_default().add(begin, end);
        true
    }

    /// Fills holes with late sequence numbers. Returns whether any were missing, and whether holes
    /// remain.
    pub(crate) fn fill(
        &mut self,
        slot: u32,
        is_reversed: bool,
        begin: u32,
        end: u32,
    ) -> (bool, bool) {
        let Some(holes) = self.0.get_mut(&(slot, is_reversed)) else { return (false, false) };
        let fills = holes.fill(begin, end) > 0;
        let has_more = !holes.0.is_empty();
        if !has_more {
            self.0.remove(&(slot, is_reversed));
        }
        (fills, has_more)
    }

    /// Forgets the holes of a flow.
    pub(crate) fn forget(&mut self, slot: u32) {
        // Usually empty: saves hashing the keys.
        if !self.0.is_empty() {
            self.0.remove(&(slot, false));
            self.0.remove(&(slot, true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_filled_in_parts_and_across_the_wrap() {
        let mut holes = AllHoles::default();
        let at = |offset: u32| 0xffff_ff00_u32.wrapping_add(offset);
        assert!(holes.add(1, false, at(0), at(1000)));
        assert_eq!(holes.fill(2, false, at(0), at(1000)), (false, false));
        assert_eq!(holes.fill(1, true, at(0), at(1000)), (false, false));
        assert_eq!(holes.fill(1, false, at(400), at(600)), (true, true));
        // A retransmission.
        assert_eq!(holes.fill(1, false, at(400), at(600)), (false, true));
        assert_eq!(holes.fill(1, false, at(0), at(400)), (true, true));
        assert_eq!(holes.fill(1, false, at(500), at(1500)), (true, false));
        assert_eq!(holes.fill(1, false, at(0), at(1000)), (false, false));
    }
}
