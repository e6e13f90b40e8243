//! What every discipline is, and what a producer keeps for it.

use std::sync::Arc;

use super::handover::Input;
use super::link::{Link, Wire};
use super::small_queue::SmallQueue;
use super::spec::{QdiscKind, QdiscSpec};
use super::stats::{LaneCounters, QdiscStats, Sent};
use crate::error::Result;
use crate::frame::{Batch, Frame};

/// A queueing discipline in front of one TX queue.
///
/// All methods may be called from any number of threads at once, each with a [`Lane`] of its own.
/// `now` is a time in nanoseconds; nothing here reads a clock.
pub(super) trait Qdisc: Send + Sync {
    /// What one more producer needs beside its counters.
    fn input(&self) -> Option<Input<Frame>> {
        None
    }

    /// Moves up to `max` frames, oldest first, to the end of `into` while it has room; returns how
    /// many.
    fn dequeue(&self, lane: &mut Lane, into: &mut Batch, max: usize, now: u64) -> usize;

    /// A number that the frames which have left the queue will have reached, at the latest, when
    /// all that the producer of `lane` has enqueued is among them.
    fn position(&self, lane: &Lane) -> u64;

    /// Frames in the queue.
    fn len(&self) -> usize;

    /// Puts the frames of `batch` into the queue, in order, and runs the queue unless somebody else
    /// does; in the order of locks that makes the discipline. Frames over a limit are dropped and
    /// counted; those refused stay in `batch`.
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
pub(super) struct Lane {
    pub(super) counters: Arc<LaneCounters>,
    /// Frames on the way from the queue to the TX ring.
    pub(super) out: Batch,
    /// The producing end of a ring.
    pub(super) input: Option<Input<Frame>>,
    pub(super) small: Option<SmallQueue>,
    /// The frames of a batch that the small queue lets go.
    pub(super) part: Batch,
}

impl Lane {
    pub(super) fn new(
        counters: Arc<LaneCounters>,
        input: Option<Input<Frame>>,
        spec: &QdiscSpec,
    ) -> Self {
        let round = match spec.kind {
            QdiscKind::Bulk { round }
            | QdiscKind::PfifoFast { round }
            | QdiscKind::Noqueue { round: Some(round) } => round as usize,
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
#[inline]
pub(super) fn bytes(frames: &[Frame]) -> u64 {
    frames.iter().map(|frame| frame.len() as u64).sum()
}
