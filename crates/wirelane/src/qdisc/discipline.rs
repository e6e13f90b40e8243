//! The trait of queueing disciplines, and the per-producer state.

use std::sync::Arc;

use super::handover::Input;
use super::link::{LockedTx, Wire};
use super::small_queue::SmallQueue;
use super::spec::{QdiscKind, QdiscSpec};
use super::stats::{LaneCounters, QdiscStats, Sent};
use crate::error::Result;
use crate::frame::{Batch, Frame};

/// A queueing discipline in front of one TX queue.
///
/// Any number of threads may call the methods at once, each with a separate [`ProducerState`].
/// `now` is a time in nanoseconds; nothing here reads a clock.
pub(super) trait Qdisc: Send + Sync {
    /// The ring input of one more producer, if the discipline needs one.
    fn input(&self) -> Option<Input<Frame>> {
        None
    }

    /// Moves up to `max` frames, oldest first, to the end of `into` while it has room; returns
    /// their number.
    fn dequeue(&self, lane: &mut ProducerState, into: &mut Batch, max: usize, now: u64) -> usize;

    /// An upper bound for the number of frames that have left the queue when all frames that the
    /// producer of `lane` has enqueued have left.
    fn position(&self, lane: &ProducerState) -> u64;

    /// Frames in the queue.
    fn len(&self) -> usize;

    /// Enqueues the frames of `batch` in order, and runs the queue unless another producer does,
    /// with the discipline's order of locks. Drops and counts frames over a limit. Refused frames
    /// stay in `batch`.
    fn send(&self, lane: &mut ProducerState, link: &LockedTx, batch: &mut Batch, now: u64) -> Sent;

    /// Moves frames from the queue to the TX ring until the queue is empty or the ring is full,
    /// flushes the ring, and continues if that made room. If another producer is running the queue,
    /// makes it look again.
    ///
    /// # Errors
    /// The interface was removed or the system refuses.
    fn flush(&self, lane: &mut ProducerState, link: &LockedTx, now: u64) -> Result<()>;

    /// Runs `act` with exclusive use of the TX side.
    fn with_wire(&self, lane: &mut ProducerState, link: &LockedTx, act: &mut dyn FnMut(&mut Wire));

    /// Adds the discipline's statistics.
    fn read(&self, stats: &mut QdiscStats) {
        let _ = stats;
    }
}

/// The state of one producer between calls.
pub(super) struct ProducerState {
    pub(super) counters: Arc<LaneCounters>,
    /// Frames on the way from the queue to the TX ring.
    pub(super) out: Batch,
    /// The producing end of a ring.
    pub(super) input: Option<Input<Frame>>,
    pub(super) small: Option<SmallQueue>,
    /// Frames of a batch that the small queue admits.
    pub(super) part: Batch,
}

impl ProducerState {
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
