//! Counters of a queueing discipline. Each producer has its own, which are summed when read.

use std::sync::Arc;

#[cfg(feature = "serde")]
use serde::Serialize;

use crate::frame::Frame;
use crate::sync::Counter;

/// The result of sending a batch: `accepted + dropped + refused` is the number of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "frames that were refused are still in the batch"]
#[non_exhaustive]
pub struct Sent {
    /// Frames in the queue or in the TX ring.
    pub accepted: usize,
    /// Frames over a limit of the queue: counted, and returned to their owners.
    pub dropped: usize,
    /// Frames still in the batch.
    pub refused: usize,
    /// Received packets in the dropped frames ([`Frame::packets`](crate::Frame::packets)).
    pub dropped_packets: u64,
}

impl Sent {
    /// Counts a frame over a limit.
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

/// The counters of one producer. Only that producer writes them, so they need no locked
/// instruction, and no cache line moves between producers.
///
/// Work of the transmitting side is counted by the producer that does it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct LaneCounters {
    /// Frames put into the queue.
    pub(super) enqueued: Counter,
    pub(super) enqueued_bytes: Counter,
    /// Frames taken out of the queue and handed to the interface.
    pub(super) dequeued: Counter,
    pub(super) dequeued_bytes: Counter,
    /// Frames that bypassed the empty queue.
    pub(super) bypassed: Counter,
    /// Frames taken out, refused by the interface, and put back.
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

/// A snapshot of the counters of a discipline and its TX queue.
///
/// Accepted frames are either `bypassed` or `enqueued`, and
/// `enqueued = dequeued + dropped.purged + backlog_packets`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct QdiscStats {
    /// The discipline, in the format of [`super::QdiscSpec`].
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
    /// Frames handed directly to the interface, because the queue was empty or there is none.
    pub bypassed: u64,
    /// How often a frame was taken out and put back, because the interface was full.
    pub requeued: u64,
    /// Frames lost, by reason. All were returned to their owners.
    pub dropped: QdiscDropped,
    /// How often a frame stayed with its producer, because the interface was full without a queue,
    /// or the producer had its share in flight. These frames are not lost.
    pub refused: u64,
    /// Lock acquisitions and releases, each counted once.
    pub lock_operations: u64,
    /// Compare-and-swap instructions that failed because of another thread.
    pub cas_retries: u64,
    /// How often a thread waited in the ring for another one that was preempted between reserving
    /// and committing.
    pub stalls: u64,
    /// How often the queue was stopped because the interface was full.
    pub stops: u64,
    /// How often a stopped queue was restarted.
    pub wakes: u64,
    /// Frames in the queue.
    pub backlog_packets: u64,
    /// Bytes of those frames.
    pub backlog_bytes: u64,
    /// The byte limit of the TX ring, if there is one.
    #[doc(hidden)]
    pub bql: Option<BqlStats>,
    /// Its bands, in the order of service; empty without bands.
    #[doc(hidden)]
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub bands: Vec<BandStats>,
}

/// A snapshot of one band: `enqueued = left + backlog`.
///
/// Over all bands, the sums of `enqueued` and `backlog` are the queue's, and the sum of `left` is
/// dequeued and purged frames. Frames that bypass the empty queue belong to no band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct BandStats {
    /// Frames put into it.
    pub enqueued: u64,
    /// Frames that left it, for the interface or purged.
    pub left: u64,
    /// Frames dropped at the band's limit of frames or bytes.
    pub dropped: u64,
    /// Frames in it.
    pub backlog: u64,
}

/// Frames lost in a discipline, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct QdiscDropped {
    /// The queue was at its limit of frames.
    pub limit_packets: u64,
    /// The queue was at its limit of bytes.
    pub limit_bytes: u64,
    /// The interface accepted them and could not send them: too long, or refused by the kernel.
    pub tx_error: u64,
    /// Dropped on request, at the end.
    pub purged: u64,
}

impl QdiscDropped {
    /// The sum.
    pub fn total(&self) -> u64 {
        self.limit_packets + self.limit_bytes + self.tx_error + self.purged
    }
}

/// A snapshot of the byte limit ([`QdiscSpec::bql`](super::QdiscSpec::bql)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
#[non_exhaustive]
pub struct BqlStats {
    /// The limit of bytes in the TX ring.
    pub limit: u64,
    /// Bytes in the TX ring.
    pub inflight: u64,
    /// How often the limit stopped the queue.
    pub held: u64,
}

impl QdiscStats {
    /// Sums the producers' counters.
    pub(super) fn read(&mut self, lanes: &[Arc<LaneCounters>]) {
        // Counters of leaving frames are read before those of entering frames, so that the
        // difference is never negative. It may be too large by frames that passed in between.
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
    /// Sums over TX queues. Keeps the discipline, and adds the byte limits.
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
