//! `noqueue`: no queue, the 2014 qdisc paper's null discipline.
//!
//! Frames are put directly into the TX ring. Several producers share the ring, so the TX lock
//! remains, with two operations ("Still takes the TXQ lock"): two for a batch, or two for every `n`
//! frames of `noqueue:n`; `noqueue:1` is the source's case. With one producer per TX queue even
//! that lock is never contended.
//!
//! Unlike the source's hack, which does not "respect TXQ/device full state" and loses frames,
//! frames for which the ring has no room stay with the producer and count as `refused`.

use super::discipline::{ProducerState, Qdisc};
use super::link::{LockedTx, Wire};
use super::stats::Sent;
use crate::error::Result;
use crate::frame::Batch;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Noqueue {
    /// The most frames per lock round.
    round: usize,
}

impl Noqueue {
    /// Takes the TX lock once for up to `round` frames, or for a whole batch with `None`.
    pub(super) fn new(round: Option<u32>) -> Self {
        Self { round: round.map_or(usize::MAX, |round| round.max(1) as usize) }
    }
}

impl Qdisc for Noqueue {
    fn dequeue(&self, _: &mut ProducerState, _: &mut Batch, _: usize, _: u64) -> usize {
        0
    }

    fn position(&self, _: &ProducerState) -> u64 {
        0
    }

    fn len(&self) -> usize {
        0
    }

    #[inline]
    fn send(&self, lane: &mut ProducerState, link: &LockedTx, batch: &mut Batch, now: u64) -> Sent {
        let ProducerState { counters, out, .. } = lane;
        let offered = batch.len();
        let mut sent = 0;
        if offered <= self.round {
            sent = link.lock(counters).transmit(link, counters, batch, now);
        } else {
            while !batch.is_empty() {
                let round = self.round.min(out.room());
                out.as_vec().extend(batch.drain(round));
                let wanted = out.len();
                let n = link.lock(counters).transmit(link, counters, out, now);
                sent += n;
                if n < wanted {
                    batch.put_back(0, out);
                    break;
                }
            }
        }
        counters.bypassed.add(sent as u64);
        if sent < offered {
            counters.refused.add((offered - sent) as u64);
        }
        Sent { accepted: sent, refused: offered - sent, ..Sent::default() }
    }

    fn flush(&self, lane: &mut ProducerState, link: &LockedTx, now: u64) -> Result<()> {
        link.lock(&lane.counters).flush(link, &lane.counters, now).map(drop)
    }

    fn with_wire(&self, lane: &mut ProducerState, link: &LockedTx, act: &mut dyn FnMut(&mut Wire)) {
        act(&mut link.lock(&lane.counters));
    }
}
