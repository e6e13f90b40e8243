//! Queueing disciplines: what stands between any number of producers and one TX queue.
//!
//! The 2014 qdisc paper ("Qdisc layer: fast enough for 10G wirespeed?") counts the lock operations of
//! Linux's transmit path: six for every packet, 48 of the 67.2 ns that a minimum frame has at
//! 10 Gbit/s. This module builds that path and what the source compares it with:
//!
//! | discipline | what happens | lock operations |
//! |---|---|---|
//! | [`noqueue`] | straight into the TX ring, under the TX lock | 2 per batch; `noqueue:1`: 2 per frame |
//! | [`fifo`] | root lock, TX lock, one frame per dequeue | 6 per frame |
//! | [`bulk`] | the same with up to n frames per dequeue | 2 + 4/n per frame |
//! | [`lockless`] | a ring for many producers; past it while it is empty | none |
//!
//! ```text
//!   producer ─ Handle::send ─┐
//!   producer ─ Handle::send ─┼─▶ Qdisc ─▶ run, by whichever producer finds it idle ─▶ TX ring
//!   producer ─ Handle::send ─┘
//! ```
//!
//! There is no thread of its own: as in the kernel's `qdisc_run`, a producer that finds nobody
//! running the queue runs it, for the others as well.
//!
//! [`Egress`] joins a discipline and a TX queue and hands out a [`Handle`] per producer. Frames that
//! cannot be queued are counted under a reason and given back to their owners.
//!
//! Around it: [`limit`] keeps the TX ring as short as it can be (BQL), [`small_queue`] keeps one
//! producer from filling all (TSQ), [`chooser`] spreads flows over several TX queues, [`stats`] says
//! what happened.

pub(crate) mod gate;
pub(crate) mod handover;
pub mod limit;
pub(crate) mod lock;
pub(crate) mod run;
pub mod small_queue;
pub mod stats;

pub mod bulk;
#[cfg(not(loom))]
pub mod chooser;
#[cfg(not(loom))]
mod egress;
#[cfg(not(loom))]
pub mod fifo;
#[cfg(not(loom))]
mod link;
#[cfg(not(loom))]
pub mod lockless;
#[cfg(not(loom))]
pub mod noqueue;
#[cfg(not(loom))]
pub mod spec;

pub use self::stats::{QdiscDropped, QdiscStats, Sent};
#[cfg(not(loom))]
pub use self::{
    chooser::{Choice, Egresses, Producer},
    egress::{Egress, EgressGauge, Handle},
    link::{Link, Wire},
    spec::{Kind, QdiscSpec},
};

#[cfg(not(loom))]
use self::{handover::Input, small_queue::SmallQueue, stats::LaneCounters};
#[cfg(not(loom))]
use crate::{
    error::Result,
    frame::{Batch, Frame},
};

#[cfg(all(test, not(loom)))]
mod tests;

/// Frames that a producer hands to the TX ring at most before it leaves the rest to others: no
/// producer is held by the others' traffic for long (`weight_p` of the kernel's `__qdisc_run`).
const QUOTA: usize = 256;

/// A queueing discipline in front of one TX queue.
///
/// All methods may be called from any number of threads at once, each with a [`Lane`] of its own.
/// `now` is a time in nanoseconds; nothing here reads a clock.
#[cfg(not(loom))]
pub trait Qdisc: Send + Sync {
    /// What one more producer needs beside its counters.
    fn input(&self) -> Option<Input<Frame>> {
        None
    }

    /// Puts the frames of `batch` into the queue, in order. Those over a limit are dropped and
    /// counted; those refused stay in `batch`.
    fn enqueue(&self, lane: &mut Lane, batch: &mut Batch, now: u64) -> Sent;

    /// Moves up to `max` frames, oldest first, to the end of `into` while it has room; returns how
    /// many.
    fn dequeue(&self, lane: &mut Lane, into: &mut Batch, max: usize, now: u64) -> usize;

    /// A number that the frames which have left the queue will have reached, at the latest, when
    /// all that the producer of `lane` has enqueued is among them.
    fn position(&self, lane: &Lane) -> u64;

    /// Frames in the queue.
    fn len(&self) -> usize;

    /// Whether no frame is in the queue.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [`Qdisc::enqueue`], then runs the queue unless somebody else does; in the order of locks
    /// that makes the discipline.
    fn send(&self, lane: &mut Lane, link: &Link, batch: &mut Batch, now: u64) -> Sent;

    /// Hands what is in the queue to the TX ring until the queue is empty or the ring is full, has
    /// the ring sent, and goes on if that made room; or sees to it that whoever runs the queue now
    /// looks again.
    ///
    /// # Errors
    /// The interface went away or the system refuses.
    fn flush(&self, lane: &mut Lane, link: &Link, now: u64) -> Result<()>;

    /// Has the TX side to itself for the time of `act`.
    fn with_wire(&self, lane: &mut Lane, link: &Link, act: &mut dyn FnMut(&mut Wire));

    /// Adds what only the discipline knows.
    fn read(&self, stats: &mut QdiscStats) {
        let _ = stats;
    }
}

/// What one producer keeps for itself between calls.
#[cfg(not(loom))]
pub struct Lane {
    counters: std::sync::Arc<LaneCounters>,
    /// Frames on the way from the queue to the TX ring.
    out: Batch,
    /// The producing end of a ring.
    input: Option<Input<Frame>>,
    small: Option<SmallQueue>,
    /// The frames of a batch that the small queue lets go.
    part: Batch,
}

#[cfg(not(loom))]
impl Lane {
    fn new(
        counters: std::sync::Arc<LaneCounters>,
        input: Option<Input<Frame>>,
        spec: &QdiscSpec,
    ) -> Self {
        let round = match spec.kind {
            Kind::Bulk { round } | Kind::Noqueue { round: Some(round) } => round as usize,
            _ => 0,
        };
        Self {
            counters,
            out: Batch::new(round.max(Batch::DEFAULT)),
            input,
            small: spec.small_queue.map(SmallQueue::new),
            part: Batch::default(),
        }
    }
}

/// The bytes of some frames.
#[cfg(not(loom))]
#[inline]
fn bytes(frames: &[Frame]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}
