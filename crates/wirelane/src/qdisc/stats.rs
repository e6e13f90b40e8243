//! What happened in a queueing discipline: counters of one producer each, summed when read.

use std::sync::Arc;

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::frame::Frame;
use crate::sync::Counter;

/// What became of the frames of one call: `accepted + dropped + refused` is how many there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "frames that were refused are still in the batch"]
#[non_exhaustive]
pub struct Sent {
    /// In the queue or on their way.
    pub accepted: usize,
    /// Over a limit of the queue: counted, and given back to their owners.
    pub dropped: usize,
    /// Still in the batch.
    pub refused: usize,
    /// The packets that those dropped were received as ([`Frame::packets`](crate::Frame::packets)).
    pub dropped_packets: u64,
}

impl Sent {
    /// Counts a frame that is over a limit.
    pub(super) fn drops(&mut self, frame: &Frame) {
        self.dropped += 1;
        self.dropped_packets += frame.packets();
    }
}

impl std::ops::AddAssign for Sent {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.dropped += other.dropped;
        self.refused += other.refused;
        self.dropped_packets += other.dropped_packets;
    }
}

/// What one producer counts. Nobody else writes these, so they cost no locked instruction and no
/// cache line moves between producers; the sum over all producers is what happened.
///
/// What the transmitting side does is counted by the producer that does it at the time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct LaneCounters {
    /// Frames put into the queue.
    pub(super) enqueued: Counter,
    pub(super) enqueued_bytes: Counter,
    /// Frames taken out of the queue and handed to the interface.
    pub(super) dequeued: Counter,
    pub(super) dequeued_bytes: Counter,
    /// Frames handed to the interface past the empty queue.
    pub(super) bypassed: Counter,
    /// Frames taken out that the interface did not take, and that were put back.
    pub(super) requeued: Counter,
    pub(super) limit_packets: Counter,
    pub(super) limit_bytes: Counter,
    pub(super) purged: Counter,
    pub(super) purged_bytes: Counter,
    pub(super) refused: Counter,
    pub(super) locks: Counter,
    pub(super) cas_retries: Counter,
    pub(super) stops: Counter,
    pub(super) wakes: Counter,
}

/// A reading of one discipline in front of one TX queue.
///
/// Frames accepted are either `bypassed` or `enqueued`, and
/// `enqueued = dequeued + dropped.purged + backlog_packets`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct QdiscStats {
    /// The discipline, as [`super::QdiscSpec`] writes it.
    pub discipline: String,
    /// Handles made so far.
    pub producers: usize,
    /// Frames put into the queue.
    pub enqueued: u64,
    /// Bytes of those frames.
    pub enqueued_bytes: u64,
    /// Frames taken out of the queue and handed to the interface.
    pub dequeued: u64,
    /// Bytes of those frames.
    pub dequeued_bytes: u64,
    /// Frames handed to the interface directly, because the queue was empty or there is none.
    pub bypassed: u64,
    /// Times that a frame was taken out and put back because the interface was full.
    pub requeued: u64,
    /// Frames lost, by reason. All of them were given back to their owners.
    pub dropped: QdiscDropped,
    /// Times that a frame was left with its producer: the interface was full and there is no
    /// queue, or the producer had its share in flight. Nothing is lost by that.
    pub refused: u64,
    /// Lock acquisitions and releases, one each.
    pub lock_operations: u64,
    /// Compare-and-swap instructions that another thread spoiled.
    pub cas_retries: u64,
    /// Times that a thread waited in the ring for another one that had reserved and not yet
    /// committed: it was preempted in between.
    pub stalls: u64,
    /// Times that the interface was full and the queue was stopped.
    pub stops: u64,
    /// Times that a stopped queue was started again.
    pub wakes: u64,
    /// Frames in the queue.
    pub backlog_packets: u64,
    /// Bytes of those frames.
    pub backlog_bytes: u64,
    /// The byte limit of the TX ring, when there is one.
    pub bql: Option<BqlStats>,
    /// Its bands, the first served first; empty for a discipline without.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub bands: Vec<BandStats>,
}

/// A reading of one band: `enqueued = left + backlog`.
///
/// Over all bands, `enqueued` and `backlog` are the queue's, and `left` is what was dequeued or
/// purged. What passes the empty queue is of no band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct BandStats {
    /// Frames put into it.
    pub enqueued: u64,
    /// Frames that left it, for the interface or purged.
    pub left: u64,
    /// Frames dropped because it held as many, or as many bytes, as it may.
    pub dropped: u64,
    /// Frames in it.
    pub backlog: u64,
}

/// Frames lost in a discipline, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct QdiscDropped {
    /// The queue held as many frames as it may.
    pub limit_packets: u64,
    /// The queue held as many bytes as it may.
    pub limit_bytes: u64,
    /// The interface took and could not send them: too long, or refused by the kernel.
    pub tx_error: u64,
    /// Thrown away on request, at the end.
    pub purged: u64,
}

impl QdiscDropped {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.limit_packets + self.limit_bytes + self.tx_error + self.purged
    }
}

/// A reading of the byte limit ([`QdiscSpec::bql`](super::QdiscSpec::bql)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct BqlStats {
    /// Bytes that may be in the TX ring.
    pub limit: u64,
    /// Bytes that are.
    pub inflight: u64,
    /// Times that the limit stopped the queue.
    pub held: u64,
}

impl QdiscStats {
    /// Sums what the producers counted.
    pub(super) fn read(&mut self, lanes: &[Arc<LaneCounters>]) {
        // All that went out is read before what came in, so that what is between is never
        // negative; it may be too large by what came and went in the meantime.
        let mut bytes = 0;
        for lane in lanes {
            self.dequeued += lane.dequeued.value();
            self.dequeued_bytes += lane.dequeued_bytes.value();
            self.dropped.purged += lane.purged.value();
            bytes += lane.dequeued_bytes.value() + lane.purged_bytes.value();
        }
        let packets = self.dequeued + self.dropped.purged;
        for lane in lanes {
            self.producers += 1;
            self.bypassed += lane.bypassed.value();
            self.enqueued += lane.enqueued.value();
            self.enqueued_bytes += lane.enqueued_bytes.value();
            self.requeued += lane.requeued.value();
            self.dropped.limit_packets += lane.limit_packets.value();
            self.dropped.limit_bytes += lane.limit_bytes.value();
            self.refused += lane.refused.value();
            self.lock_operations += lane.locks.value();
            self.cas_retries += lane.cas_retries.value();
            self.stops += lane.stops.value();
            self.wakes += lane.wakes.value();
        }
        self.backlog_packets = self.enqueued.saturating_sub(packets);
        self.backlog_bytes = self.enqueued_bytes.saturating_sub(bytes);
    }
}

impl std::ops::AddAssign<&Self> for QdiscStats {
    /// Sums over TX queues; the discipline stays, and byte limits add up.
    fn add_assign(&mut self, other: &Self) {
        self.producers += other.producers;
        self.enqueued += other.enqueued;
        self.enqueued_bytes += other.enqueued_bytes;
        self.dequeued += other.dequeued;
        self.dequeued_bytes += other.dequeued_bytes;
        self.bypassed += other.bypassed;
        self.requeued += other.requeued;
        self.dropped.limit_packets += other.dropped.limit_packets;
        self.dropped.limit_bytes += other.dropped.limit_bytes;
        self.dropped.tx_error += other.dropped.tx_error;
        self.dropped.purged += other.dropped.purged;
        self.refused += other.refused;
        self.lock_operations += other.lock_operations;
        self.cas_retries += other.cas_retries;
        self.stalls += other.stalls;
        self.stops += other.stops;
        self.wakes += other.wakes;
        self.backlog_packets += other.backlog_packets;
        self.backlog_bytes += other.backlog_bytes;
        self.bands.resize(self.bands.len().max(other.bands.len()), BandStats::default());
        for (band, more) in self.bands.iter_mut().zip(&other.bands) {
            band.enqueued += more.enqueued;
            band.left += more.left;
            band.dropped += more.dropped;
            band.backlog += more.backlog;
        }
        if let Some(more) = other.bql {
            let sum = self.bql.get_or_insert_default();
            sum.limit += more.limit;
            sum.inflight += more.inflight;
            sum.held += more.held;
        }
    }
}
