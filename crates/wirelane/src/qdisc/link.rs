//! The TX side of a discipline: the transmitting end, whoever may use it now, and whether it is
//! full.

use std::sync::Arc;

use super::gate::Gate;
use super::lock::{Guard, SpinLock};
use super::stats::{BqlStats, LaneCounters, QdiscStats};
use crate::error::Result;
use crate::frame::Batch;
use crate::port::Tx;
use crate::stats::TxCounters;

/// One TX queue, shared by the producers in front of it.
///
/// Its transmitting end is reached under the TX lock (the locked disciplines) or by whoever holds
/// the running bit (`lockless`); one discipline uses one way only.
pub struct Link {
    pub(super) gate: Gate,
    pub(super) wire: SpinLock<Wire>,
    counters: Arc<TxCounters>,
}

/// What the thread that transmits now has to itself.
pub struct Wire {
    tx: Tx,
}

impl Link {
    pub(super) fn new(tx: Tx) -> Self {
        let counters = Arc::clone(tx.counters());
        let wire = Wire { tx };
        Self { gate: Gate::new(), wire: SpinLock::new(wire), counters }
    }

    /// Takes the TX lock (`HARD_TX_LOCK`): one lock operation, and one when the guard goes.
    #[inline(always)]
    pub(super) fn lock<'a>(&'a self, lane: &'a LaneCounters) -> Guard<'a, Wire> {
        self.wire.lock(lane)
    }

    /// Whether the queue is to keep its frames, because the TX ring is full.
    #[inline(always)]
    pub(super) fn is_stopped(&self) -> bool {
        self.gate.is_stopped()
    }

    /// Adds what the TX side knows.
    pub(super) fn read(&self, stats: &mut QdiscStats) {
        stats.dropped.tx_error = self.counters.errors.value();
        stats.bql = None::<BqlStats>;
    }

    /// The counters of the transmitting end.
    pub(super) fn counters(&self) -> &Arc<TxCounters> {
        &self.counters
    }
}

impl Wire {
    /// Hands frames from the front of `batch` to the TX ring; returns how many. If it takes less
    /// than all, the queue is stopped when this returns.
    #[inline]
    pub(super) fn transmit(
        &mut self,
        gate: &Gate,
        lane: &LaneCounters,
        batch: &mut Batch,
        _now: u64,
    ) -> usize {
        let taken = self.tx.transmit(batch);
        if batch.is_empty() { taken } else { taken + self.transmit_full(gate, lane, batch) }
    }

    /// The TX ring is full: stops the queue and looks again.
    #[cold]
    fn transmit_full(&mut self, gate: &Gate, lane: &LaneCounters, batch: &mut Batch) -> usize {
        let mut taken = 0;
        let stopped = gate.stop(|| {
            taken += self.tx.transmit(batch);
            batch.is_empty()
        });
        lane.stops.add(u64::from(stopped));
        taken
    }

    /// Sends what was taken, reclaims what was sent, and starts a stopped queue: true if the
    /// caller is to run it.
    pub(super) fn flush(&mut self, gate: &Gate, lane: &LaneCounters, _now: u64) -> Result<bool> {
        let result = self.tx.flush();
        let woken = gate.wake();
        lane.wakes.add(u64::from(woken));
        result.map(|()| woken)
    }

    /// The transmitting end.
    pub(super) fn tx(&mut self) -> &mut Tx {
        &mut self.tx
    }
}
