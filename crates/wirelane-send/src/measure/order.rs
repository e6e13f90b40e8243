//! Packet reordering (RFC 4737).

use std::collections::VecDeque;

/// The number of in-order runs that are kept to compute the extent of a late packet.
const RUNS: usize = 64;

/// The order of one flow in one queue. The caller passes each packet once, without copies.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowOrder {
    /// The highest sequence number so far plus one (`NextExp` of RFC 4737, section 3.3).
    next: u64,
    arrivals: u64,
    /// Runs of packets that had the highest number when they arrived.
    runs: VecDeque<OrderedRun>,
    forgotten: bool,
}

/// Packets that arrived consecutively, with consecutive numbers.
#[derive(Clone, Copy, Debug)]
struct OrderedRun {
    sequence: u64,
    arrival: u64,
    len: u64,
}

/// A packet that arrived after one with a higher number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LatePacket {
    /// The number of arrivals since the first packet with a higher number (RFC 4737, section
    /// 4.2.1).
    pub(super) extent: u64,
    /// The extent may be larger: the run of the first packet with a higher number may have been
    /// discarded.
    pub(super) at_least: bool,
}

impl FlowOrder {
    /// Extends the 32-bit `sequence` of a packet to 64 bits.
    #[inline]
    pub(super) fn extend(&self, sequence: u32) -> u64 {
        // Assumes a distance of less than 2³¹ in both directions.
        let distance = sequence.wrapping_sub(self.next as u32) as i32;
        self.next.checked_add_signed(distance.into()).unwrap_or(u64::from(sequence))
    }

    /// Records the arrival of packet `sequence`.
    #[inline]
    pub(super) fn arrive(&mut self, sequence: u64) -> Option<LatePacket> {
        let arrival = self.arrivals;
        self.arrivals += 1;
        if sequence < self.next {
            return Some(self.late(sequence, arrival));
        }
        self.next = sequence + 1;
        let continues = |run: &OrderedRun| {
            run.sequence + run.len == sequence && run.arrival + run.len == arrival
        };
        match self.runs.back_mut().filter(|run| continues(run)) {
            Some(run) => run.len += 1,
            None => self.begin(OrderedRun { sequence, arrival, len: 1 }),
        }
        None
    }

    #[cold]
    fn begin(&mut self, run: OrderedRun) {
        if self.runs.len() == RUNS {
            self.runs.pop_front();
            self.forgotten = true;
        }
        self.runs.push_back(run);
    }

    #[cold]
    fn late(&self, sequence: u64, arrival: u64) -> LatePacket {
        let before = self.runs.partition_point(|run| run.sequence + run.len <= sequence + 1);
        let first = self
            .runs
            .get(before)
            .map_or(arrival, |run| run.arrival + (sequence + 1).saturating_sub(run.sequence));
        let extent = arrival.saturating_sub(first);
        LatePacket { extent, at_least: before == 0 && self.forgotten }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A literal implementation of RFC 4737, sections 3.3 and 4.2.1.
    fn plain(arrived: &[u64]) -> Vec<Option<u64>> {
        let extent = |(i, s): (usize, &u64)| {
            arrived[..i].iter().position(|earlier| earlier > s).map(|j| (i - j) as u64)
        };
        arrived.iter().enumerate().map(extent).collect()
    }

    fn measured(arrived: &[u64]) -> Vec<Option<u64>> {
        let mut order = FlowOrder::default();
        arrived.iter().map(|s| order.arrive(*s).map(|late| late.extent)).collect()
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // Section 7.1 of RFC 4737: packet 4 has an extent of 2.
        let arrived = [1, 2, 3, 5, 6, 4, 7];
        assert_eq!(measured(&arrived), [None, None, None, None, None, Some(2), None]);
        assert_eq!(measured(&[0, 3, 1, 2, 4]), [None, None, Some(1), Some(2), None]);
        // A gap does not count as reordering.
        assert_eq!(measured(&[0, 7, 9, 10]), [None; 4]);
    }

    #[test]
    fn what_is_forgotten_is_said() {
        let mut order = FlowOrder::default();
        (0..200).for_each(|k| assert_eq!(order.arrive(10 + 2 * k), None));
        let late = order.arrive(9).unwrap();
        assert!(late.at_least && late.extent == 64, "{late:?}");
        let late = order.arrive(10 + 2 * 199 - 1).unwrap();
        assert_eq!(late, LatePacket { extent: 2, at_least: false });
    }

    #[test]
    fn numbers_go_on_after_32_bits() {
        let mut order = FlowOrder::default();
        assert_eq!(order.extend(3), 3);
        order.arrive(u64::from(u32::MAX) - 2);
        assert_eq!(order.extend(1), (1 << 32) + 1);
        order.arrive((1 << 32) + 1);
        assert_eq!(order.extend(u32::MAX), u64::from(u32::MAX));
    }

    proptest! {
        #[test]
        fn any_order_is_measured(
            len in 1u64..60,
            swaps in prop::collection::vec((0usize..60, 0usize..60), 0..20),
            lost in prop::collection::vec(0u64..60, 0..5),
        ) {
            let mut arrived: Vec<u64> = (0..len).collect();
            for (one, other) in swaps {
                arrived.swap(one % len as usize, other % len as usize);
            }
            arrived.retain(|s| !lost.contains(s));
            prop_assert_eq!(measured(&arrived), plain(&arrived));
        }
    }
}
