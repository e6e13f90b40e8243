//! `lockless`: a bounded ring for many producers, drained by the producer that becomes its runner.
//! It uses no locks, but two compare-and-swaps per batch: one to become the runner, one to stop
//! running.
//!
//! ```text
//!   no runner, and the ring is empty ─▶ bypass: directly into the TX ring
//!   no runner                        ─▶ enqueue in bulk, then run: dequeue in bulk, transmit
//!   another producer is the runner   ─▶ enqueue in bulk, and make the runner look again
//! ```
//!
//! The 2014 qdisc paper put a multi-producer multi-consumer ring in place of the locked list and
//! found it 58.98 ns faster than the locked path, and only 7.9 ns slower without the bypass
//! (`TCQ_F_CAN_BYPASS`). Its consumers raced for the ring. The TX ring accepts only one of them at
//! a time, so here the holder of the running bit (`run.rs`) is the only consumer, and that end of
//! the ring needs no compare-and-swap.
//!
//! Order: a producer holds the running bit while frames bypass, and only an empty ring is bypassed,
//! so no older frame of the same producer waits.
#![allow(unsafe_code)]

use super::discipline::{ProducerState, Qdisc, bytes};
use super::handover::{Container, HandOver, Host, Input, TxRoute};
use super::link::{LockedTx, Wire};
use super::stats::{LaneCounters, QdiscStats, Sent};
use crate::error::Result;
use crate::frame::{Batch, Frame};

/// See the [module documentation](self).
pub(super) struct Lockless {
    core: HandOver<Batch>,
    limit: usize,
    bypass: bool,
}

impl Container for Batch {
    type Item = Frame;

    #[inline(always)]
    fn items(&mut self) -> &mut Vec<Frame> {
        self.as_vec()
    }
}

impl Lockless {
    /// A queue of at most `limit` frames; with `bypass`, frames may bypass it while it is empty.
    ///
    /// A limit that is a power of two is exact and free. With any other limit, producers that
    /// enqueue at the same time may exceed it by a batch each.
    pub(super) fn new(limit: usize, bypass: bool) -> Self {
        let core = HandOver::new(limit, Batch::new(Batch::DEFAULT));
        Self { core, limit, bypass }
    }

    /// The number of frames that the ring may contain now; `None` if the ring itself enforces the
    /// limit.
    #[inline]
    fn limit_beside(&self, input: &Input<Frame>) -> Option<usize> {
        let stashed = self.core.stashed();
        (self.limit != input.capacity() || stashed > 0).then(|| self.limit.saturating_sub(stashed))
    }

    /// The state of a producer's call, and its buffer.
    fn port<'a>(
        &'a self,
        lane: &'a mut ProducerState,
        link: &'a LockedTx,
        now: u64,
    ) -> Option<(ProducerPort<'a>, &'a mut Batch)> {
        let ProducerState { counters, out, input, .. } = lane;
        let input = input.as_mut()?;
        let limit = self.limit_beside(input);
        Some((ProducerPort { counters, input, link, limit, now, sent: Sent::default() }, out))
    }
}

/// One producer during one call.
struct ProducerPort<'a> {
    counters: &'a LaneCounters,
    input: &'a mut Input<Frame>,
    link: &'a LockedTx,
    /// The limit, unless the ring enforces it.
    limit: Option<usize>,
    now: u64,
    /// The result of the call; only `dropped` of the frames put into the ring.
    sent: Sent,
}

/// Puts frames into the ring, and drops and counts those over the limit. Returns both numbers.
fn enqueue(
    lane: &LaneCounters,
    input: &mut Input<Frame>,
    limit: Option<usize>,
    batch: &mut Batch,
) -> Sent {
    let (offered, length) = (batch.len(), bytes(batch));
    // Counted first, so that no reader sees more frames leave than enter.
    lane.enqueued.add(offered as u64);
    lane.enqueued_bytes.add(length);
    match limit {
        None => {
            input.enqueue_bulk(batch.as_vec());
        }
        Some(limit) => {
            let room = limit.saturating_sub(input.len()).min(offered);
            if let Some(mut slots) = input.reserve(room) {
                for frame in batch.drain(slots.capacity()) {
                    // There are as many slots as frames are drained.
                    drop(slots.push(frame));
                }
                slots.commit();
            }
        }
    }
    let left = batch.len();
    let mut sent = Sent { accepted: offered - left, ..Sent::default() };
    if left > 0 {
        let length = bytes(batch);
        lane.enqueued.set(lane.enqueued.value() - left as u64);
        lane.enqueued_bytes.set(lane.enqueued_bytes.value() - length);
        lane.limit_packets.add(left as u64);
        batch.iter().for_each(|frame| sent.drops(frame));
        batch.clear();
    }
    sent
}

impl Host for ProducerPort<'_> {
    type Batch = Batch;

    fn enqueue(&mut self, batch: &mut Batch) {
        self.sent += enqueue(self.counters, self.input, self.limit, batch);
    }

    #[inline(always)]
    fn transmit(&mut self, batch: &mut Batch, way: TxRoute) {
        let offered = batch.len();
        let length = if way == TxRoute::Ring { bytes(batch) } else { 0 };
        // SAFETY: only the runner gets here, and with this discipline no thread takes the TX lock.
        let wire = unsafe { self.link.wire.get() };
        let sent = wire.transmit(self.link, self.counters, batch, self.now) as u64;
        match way {
            TxRoute::Bypass => self.counters.bypassed.add(sent),
            TxRoute::Ring => {
                self.link.handed(sent as usize);
                self.counters.dequeued.add(sent);
                self.counters.dequeued_bytes.add(length - bytes(batch));
                if !batch.is_empty() {
                    self.counters.requeued.add((offered as u64) - sent);
                }
            }
        }
    }

    #[inline(always)]
    fn is_stopped(&self) -> bool {
        self.link.is_stopped()
    }
}

impl Qdisc for Lockless {
    fn input(&self) -> Option<Input<Frame>> {
        Some(self.core.input())
    }

    fn dequeue(&self, lane: &mut ProducerState, into: &mut Batch, max: usize, _: u64) -> usize {
        let first = into.len();
        let max = max.min(into.room());
        let taken = self.core.take(into.as_vec(), max);
        lane.counters.dequeued.add(taken as u64);
        lane.counters.dequeued_bytes.add(bytes(&into[first..]));
        taken
    }

    fn position(&self, lane: &ProducerState) -> u64 {
        lane.input.as_ref().map_or(0, Input::published)
    }

    fn len(&self) -> usize {
        self.core.len()
    }

    #[inline]
    fn send(&self, lane: &mut ProducerState, link: &LockedTx, batch: &mut Batch, now: u64) -> Sent {
        let offered = batch.len();
        let Some((mut port, out)) = self.port(lane, link, now) else {
            return Sent { refused: offered, ..Sent::default() };
        };
        self.core.send(&mut port, batch, out, self.bypass);
        // All frames that were not dropped are in the ring, or bypassed it.
        Sent { accepted: offered - port.sent.dropped, ..port.sent }
    }

    fn flush(&self, lane: &mut ProducerState, link: &LockedTx, now: u64) -> Result<()> {
        let Some((mut port, out)) = self.port(lane, link, now) else { return Ok(()) };
        let mut result = Ok(());
        self.core.run(&mut port, out, |port| {
            // SAFETY: only the runner gets here, and no thread takes the TX lock.
            let wire = unsafe { link.wire.get() };
            match wire.flush(link, port.counters, now) {
                Ok(woken) => woken,
                Err(error) => {
                    result = Err(error);
                    false
                }
            }
        });
        result
    }

    fn with_wire(&self, lane: &mut ProducerState, link: &LockedTx, act: &mut dyn FnMut(&mut Wire)) {
        let Some((mut port, out)) = self.port(lane, link, 0) else { return };
        // SAFETY: only the runner gets here, and no thread takes the TX lock.
        self.core.exclusive(&mut port, out, || act(unsafe { link.wire.get() }));
    }

    fn read(&self, stats: &mut QdiscStats) {
        for handle in self.core.ring().stats() {
            stats.cas_retries += handle.retries;
            stats.stalls += handle.stalled;
        }
    }
}
