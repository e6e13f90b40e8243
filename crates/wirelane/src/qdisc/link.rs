//! The TX side of a discipline: the transmitting end, the access to it, and whether it is full.

use std::sync::Arc;

use super::limit::FrameLimit;
use super::lock::{Guard, SpinLock};
use super::small_queue::TxProgress;
use super::spec::QdiscSpec;
use super::stats::{BqlStats, LaneCounters, QdiscStats};
use super::stop_wake::QueueState;
use crate::error::Result;
use crate::frame::Batch;
use crate::port::Tx;
use crate::stats::TxCounters;
use crate::sync::Counter;

/// One TX queue, shared by the producers in front of it.
///
/// Access to its transmitting end is protected by the TX lock (the locked disciplines) or the
/// running bit (`lockless`). A discipline uses only one of them.
pub(super) struct LockedTx {
    state: QueueState,
    pub(super) wire: SpinLock<Wire>,
    /// Present if a small queue needs the progress of transmission.
    progress: Option<TxProgress>,
    /// Present if there is a byte limit.
    limit: Option<LimitGauge>,
    /// Frames in the TX ring at the last flush, written by the transmitting thread.
    pending: Counter,
    counters: Arc<TxCounters>,
}

/// The published state of the byte limit, written by the transmitting thread.
#[derive(Debug, Default)]
struct LimitGauge {
    limit: Counter,
    inflight: Counter,
    held: Counter,
}

/// The state of the transmitting thread.
pub(super) struct Wire {
    tx: Tx,
    limit: Option<FrameLimit>,
    /// Frames of a batch that the limit admits.
    part: Batch,
}

impl LockedTx {
    pub(super) fn new(tx: Tx, spec: &QdiscSpec) -> Self {
        let counters = Arc::clone(tx.counters());
        let limit = spec.bql.then(FrameLimit::new);
        let wire = Wire { tx, limit, part: Batch::new(Batch::DEFAULT) };
        Self {
            state: QueueState::new(),
            wire: SpinLock::new(wire),
            progress: spec.small_queue.map(|_| TxProgress::default()),
            limit: spec.bql.then(LimitGauge::default),
            pending: Counter::default(),
            counters,
        }
    }

    /// Takes the TX lock (`HARD_TX_LOCK`): one lock operation, and one when the guard is dropped.
    #[inline(always)]
    pub(super) fn lock<'a>(&'a self, lane: &'a LaneCounters) -> Guard<'a, Wire> {
        self.wire.lock(lane)
    }

    /// Whether the queue must keep its frames, because the TX ring is full.
    #[inline(always)]
    pub(super) fn is_stopped(&self) -> bool {
        self.state.is_stopped()
    }

    /// Counts frames that left the queue, for the TX ring or as purged.
    #[inline(always)]
    pub(super) fn handed(&self, frames: usize) {
        if let Some(progress) = &self.progress {
            progress.handed(frames);
        }
    }

    /// The progress of transmission, if a small queue needs it.
    pub(super) fn progress(&self) -> Option<&TxProgress> {
        self.progress.as_ref()
    }

    /// Frames in the TX ring at the last flush.
    pub(super) fn pending(&self) -> usize {
        self.pending.value() as usize
    }

    /// Adds the statistics of the TX side.
    pub(super) fn read(&self, stats: &mut QdiscStats) {
        stats.dropped.tx_error = self.counters.errors.value();
        stats.bql = self.limit.as_ref().map(|gauge| BqlStats {
            limit: gauge.limit.value(),
            inflight: gauge.inflight.value(),
            held: gauge.held.value(),
        });
    }

    /// The counters of the transmitting end.
    pub(super) fn counters(&self) -> &Arc<TxCounters> {
        &self.counters
    }
}

impl Wire {
    /// Hands frames from the front of `batch` to the TX ring; returns their number. If it accepts
    /// fewer than all, the queue is stopped on return.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        link: &LockedTx,
        lane: &LaneCounters,
        batch: &mut Batch,
        now: u64,
    ) -> usize {
        let mut taken = match self.limit {
            None => self.tx.transmit(batch),
            Some(_) => self.transmit_limited(batch, now),
        };
        if !batch.is_empty() {
            taken += self.transmit_full(link, lane, batch, now);
        }
        if self.limit.is_some() || link.progress.is_some() {
            self.publish(link, taken);
        }
        taken
    }

    /// Stops the queue because the TX ring is full, and tries again.
    #[cold]
    fn transmit_full(
        &mut self,
        link: &LockedTx,
        lane: &LaneCounters,
        batch: &mut Batch,
        now: u64,
    ) -> usize {
        let mut taken = 0;
        let stopped = link.state.stop(|| {
            taken += match self.limit {
                None => self.tx.transmit(batch),
                Some(_) => self.transmit_limited(batch, now),
            };
            batch.is_empty()
        });
        lane.stops.add(u64::from(stopped));
        taken
    }

    /// Like [`Wire::transmit`], within the byte limit.
    fn transmit_limited(&mut self, batch: &mut Batch, now: u64) -> usize {
        let Self { tx, limit: Some(limit), part } = self else { return 0 };
        let mut total = 0;
        limit.settle(tx.pending(), now);
        while !batch.is_empty() {
            let admitted = limit.admit(batch.iter().map(|frame| frame.len())).min(part.room());
            if admitted == 0 {
                limit.held += 1;
                break;
            }
            part.as_vec().extend(batch.drain(admitted));
            limit.offer(part.iter().map(|frame| frame.len()));
            let taken = tx.transmit(part);
            limit.taken(taken, part.len());
            total += taken;
            limit.settle(tx.pending(), now);
            if !part.is_empty() {
                batch.put_back(0, part);
                break;
            }
        }
        total
    }

    /// Publishes the progress of transmission.
    fn publish(&self, link: &LockedTx, taken: usize) {
        if let Some(progress) = &link.progress {
            progress.sent(taken, self.tx.pending());
        }
        if let (Some(gauge), Some(limit)) = (&link.limit, &self.limit) {
            gauge.limit.set(limit.bytes.limit());
            gauge.inflight.set(limit.bytes.inflight());
            gauge.held.set(limit.held);
        }
    }

    /// Flushes the TX ring, reclaims sent frames, and restarts a stopped queue. True if the caller
    /// must run it.
    pub(super) fn flush(&mut self, link: &LockedTx, lane: &LaneCounters, now: u64) -> Result<bool> {
        let result = self.tx.flush();
        if let Some(limit) = &mut self.limit {
            limit.settle(self.tx.pending(), now);
        }
        self.publish(link, 0);
        link.pending.set(self.tx.pending() as u64);
        let woken = link.state.wake();
        lane.wakes.add(u64::from(woken));
        result.map(|()| woken)
    }

    /// The transmitting end.
    pub(super) fn tx(&mut self) -> &mut Tx {
        &mut self.tx
    }
}
