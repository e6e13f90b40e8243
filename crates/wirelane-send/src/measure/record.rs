//! Records of received packets, for one queue or all queues.

use wirelane_gen::signature::{Signature, elapsed};

use super::latency::Latency;
use super::order::FlowOrder;
use super::seen::SeenPackets;

/// Significant digits of the total latency histogram, and of the histogram of one flow.
const DIGITS: u8 = 3;
const DIGITS_OF_FLOW: u8 = 2;
/// The largest number of flows with separate latency histograms. More would need too much memory.
const MOST_LATENCIES: usize = 4096;

/// Received packets of one flow or all flows.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Arrivals {
    /// Packets without copies.
    pub received: u64,
    /// Their bytes, without frame check sequence.
    pub bytes: u64,
    /// Copies of packets that had arrived before.
    pub duplicated: u64,
    /// Packets that arrived after one with a higher number in the same queue.
    pub reordered: u64,
    /// The largest extent of reordering: the number of arrivals since the first packet with a
    /// higher number.
    pub extent: u64,
    /// The sum of the extents, to compute their mean.
    pub extents: u64,
    /// Late packets whose extent may be larger than counted, because too many packets were out of
    /// order since.
    pub extents_at_least: u64,
    /// Packets with numbers beyond the [`Expectation`](super::Expectation). They may include
    /// copies.
    pub beyond: u64,
    /// The number of queues that received the packets. Reordering between queues is unknown.
    pub queues: u32,
    /// Arrival times of the first and the last packet, in nanoseconds of the monotonic clock.
    pub span: Option<(u64, u64)>,
    /// Latencies. `None` without packets, and for single flows if there are more than 4096.
    pub latency: Option<Latency>,
}

impl Arrivals {
    /// Adds the counts of another queue or another flow. Does not change `queues`.
    pub fn merge(&mut self, other: &Self) {
        self.add_counts(other);
        match (&mut self.latency, &other.latency) {
            (Some(one), Some(other)) => one.merge(other),
            (one @ None, Some(other)) => *one = Some(other.clone()),
            (_, None) => {}
        }
    }

    /// Adds all counts except latencies and queues.
    fn add_counts(&mut self, other: &Self) {
        self.received += other.received;
        self.bytes += other.bytes;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.extent = self.extent.max(other.extent);
        self.extents += other.extents;
        self.extents_at_least += other.extents_at_least;
        self.beyond += other.beyond;
        self.span = match (self.span, other.span) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }
}

/// The packets received during a trial.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Heard {
    /// Results by flow number.
    pub flows: Vec<Arrivals>,
    /// All flows together. Its latencies are always `Some` after a trial. Its `queues` counts the
    /// queues with signed packets.
    pub total: Arrivals,
    /// Packets without a valid signature.
    pub other: u64,
    /// Packets of the previous trial.
    pub stale: u64,
    /// Signed packets with an unknown flow number.
    pub unknown: u64,
    /// Packets that reached this machine and were dropped because the receiver's rings were full.
    /// If they were signed, they also count as lost. `None` if unknown.
    pub dropped: Option<u64>,
}

/// The packets received by one thread.
pub(super) struct ThreadRecord {
    flows: Vec<Option<Box<FlowArrivals>>>,
    latency: Latency,
    latencies: bool,
    pub(super) signed: u64,
    pub(super) other: u64,
    pub(super) stale: u64,
    unknown: u64,
}

#[derive(Default)]
struct FlowArrivals {
    arrivals: Arrivals,
    order: FlowOrder,
}

impl ThreadRecord {
    pub(super) fn new(flows: usize) -> Self {
        Self {
            flows: std::iter::repeat_with(|| None).take(flows).collect(),
            latency: Latency::new(DIGITS),
            latencies: flows <= MOST_LATENCIES,
            signed: 0,
            other: 0,
            stale: 0,
            unknown: 0,
        }
    }

    /// Records a signed packet of `bytes` that arrived at the monotonic time `now`.
    #[inline]
    pub(super) fn signed(
        &mut self,
        signature: Signature,
        bytes: usize,
        now: u64,
        seen: &SeenPackets,
    ) {
        self.signed += 1;
        let number = signature.flow as usize;
        let Some(place) = self.flows.get_mut(number) else {
            self.unknown += 1;
            return;
        };
        let FlowArrivals { arrivals, order } = &mut **place.get_or_insert_default();
        let sequence = order.extend(signature.sequence);
        match seen.is_first(number, sequence) {
            Some(true) => {}
            Some(false) => {
                arrivals.duplicated += 1;
                return;
            }
            None => arrivals.beyond += 1,
        }
        arrivals.received += 1;
        arrivals.bytes += bytes as u64;
        arrivals.span = Some((arrivals.span.map_or(now, |(first, _)| first), now));
        if let Some(late) = order.arrive(sequence) {
            arrivals.reordered += 1;
            arrivals.extents += late.extent;
            arrivals.extent = arrivals.extent.max(late.extent);
            arrivals.extents_at_least += u64::from(late.at_least);
        }
        let time = elapsed(signature.time, now);
        self.latency.add(time);
        if self.latencies {
            arrivals.latency.get_or_insert_with(|| Latency::new(DIGITS_OF_FLOW)).add(time);
        }
    }

    /// Adds this record to the results of other threads.
    pub(super) fn add_to(&self, heard: &mut Heard) {
        heard.flows.resize_with(heard.flows.len().max(self.flows.len()), Arrivals::default);
        let mut total = Arrivals::default();
        for (of_all, own) in heard.flows.iter_mut().zip(&self.flows) {
            let Some(own) = own else { continue };
            of_all.merge(&own.arrivals);
            of_all.queues += 1;
            // The latencies of a flow are too coarse for the total.
            total.add_counts(&own.arrivals);
        }
        total.latency = Some(self.latency.clone());
        heard.total.merge(&total);
        heard.total.queues += u32::from(self.signed > 0);
        heard.other += self.other;
        heard.stale += self.stale;
        heard.unknown += self.unknown;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wirelane_gen::signature::SignatureKey;

    use super::*;
    use crate::measure::Expectation;

    proptest! {
        #[test]
        fn what_is_lost_copied_and_late_is_counted_exactly(
            packets in 1u64..200,
            lost in prop::collection::btree_set(0u64..200, 0..20),
            copied in prop::collection::btree_set(0u64..200, 0..20),
            late in prop::collection::btree_set(0u64..200, 0..20),
            queues in 1usize..4,
        ) {
            // Late packets arrive after their successor, in the same queue.
            let mut arrived: Vec<u64> = (0..packets).filter(|k| !lost.contains(k)).collect();
            let mut reordered = 0;
            let mut at = 0;
            while at + 1 < arrived.len() {
                if late.contains(&arrived[at]) {
                    arrived.swap(at, at + 1);
                    reordered += 1;
                    at += 1;
                }
                at += 1;
            }
            let seen = SeenPackets::new(&Expectation { key: SignatureKey(1), packets: vec![0, packets] });
            let mut records: Vec<_> = (0..queues).map(|_| ThreadRecord::new(2)).collect();
            let mut copies = 0;
            for sequence in &arrived {
                let signature = Signature { flow: 1, sequence: *sequence as u32, time: 100 };
                records[0].signed(signature, 60, 1100, &seen);
                if copied.contains(sequence) {
                    // Copies may arrive in any queue.
                    records[*sequence as usize % queues].signed(signature, 60, 1100, &seen);
                    copies += 1;
                }
            }
            let stranger = Signature { flow: 2, sequence: 0, time: 0 };
            records[0].signed(stranger, 60, 0, &seen);
            let mut heard = Heard::default();
            records.iter().for_each(|record| record.add_to(&mut heard));
            let (flow, total) = (&heard.flows[1], &heard.total);
            prop_assert_eq!(flow.received, arrived.len() as u64);
            prop_assert_eq!(flow.bytes, 60 * flow.received);
            prop_assert_eq!((flow.duplicated, flow.reordered), (copies, reordered));
            prop_assert_eq!(flow.extent, u64::from(reordered > 0));
            prop_assert_eq!((total.received, total.duplicated), (flow.received, copies));
            prop_assert_eq!((heard.unknown, flow.beyond, heard.flows[0].received), (1, 0, 0));
            if let Some(latency) = &total.latency {
                prop_assert_eq!((latency.packets(), latency.min()), (flow.received, if arrived.is_empty() { 0 } else { 1000 }));
            }
        }
    }
}
