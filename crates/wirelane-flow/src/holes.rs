//! Sequence numbers of TCP that were left out: who fills them came late, and was not sent before.

use std::collections::HashMap;

/// Holes of a direction.
const EACH: usize = 8;
/// Directions with holes.
const MOST: usize = 65_536;
/// A longer one is a capture that begins anew.
const LONGEST: u32 = 1 << 24;

/// The holes of a direction: begin and end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holes(Vec<(u32, u32)>);

impl Holes {
    /// Notes that these sequence numbers are missing. Forgets the oldest of too many holes.
    pub(crate) fn add(&mut self, begin: u32, end: u32) {
        if is_too_long(begin, end) {
            return;
        }
        if self.0.len() == EACH {
            self.0.remove(0);
        }
        self.0.push((begin, end));
    }

    /// Takes sequence numbers that came late: how many of them were missing.
    pub(crate) fn fill(&mut self, begin: u32, end: u32) -> u32 {
        let mut filled = 0;
        let mut left = Vec::with_capacity(self.0.len() + 1);
        for &(from, to) in &self.0 {
            // Relative to the hole, so that it does not matter where numbers begin anew.
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

/// The holes of all flows of a table; most have none.
#[derive(Default)]
pub(crate) struct AllHoles(HashMap<(u32, bool), Holes>);

impl AllHoles {
    /// Notes that these sequence numbers of a direction are missing; false if it cannot be noted.
    pub(crate) fn add(&mut self, slot: u32, is_reversed: bool, begin: u32, end: u32) -> bool {
        let is_known = self.0.contains_key(&(slot, is_reversed));
        if is_too_long(begin, end) || self.0.len() >= MOST && !is_known {
            return is_known;
        }
        self.0.entry((slot, is_reversed)).or_default().add(begin, end);
        true
    }

    /// Takes sequence numbers that came late: whether any of them were missing, and whether more
    /// are.
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

    /// Forgets those of a flow.
    pub(crate) fn forget(&mut self, slot: u32) {
        // Mostly there are none, so that no key needs a hash.
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
        // Sent again.
        assert_eq!(holes.fill(1, false, at(400), at(600)), (false, true));
        assert_eq!(holes.fill(1, false, at(0), at(400)), (true, true));
        assert_eq!(holes.fill(1, false, at(500), at(1500)), (true, false));
        assert_eq!(holes.fill(1, false, at(0), at(1000)), (false, false));
    }
}
