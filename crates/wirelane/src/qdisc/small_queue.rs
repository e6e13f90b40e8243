//! Small queues (TSQ): how much one producer may have on its way.
//!
//! A producer that is faster than the interface fills the queue, which delays its own packets and
//! those of all others. Linux limits what one TCP socket has in queue and TX ring together
//! (`tcp_small_queue_check`, `net/ipv4/tcp_output.c`, since 3.6) and lets it go on when completions
//! come. The 2014 qdisc paper asks whether the frames that pile up behind such a limit should be
//! enqueued in bulk: here they are, because a refused frame stays in its batch.
//!
//! Nothing is written onto frames, and producers share no counter for this. The queue is a FIFO
//! and so is the TX ring, so a producer remembers up to where its frames reach in each, and
//! compares that with how far the TX side says it has come:
//!
//! ```text
//!   sent by this producer:  [ in the queue up to position 70 ] [ in the ring up to frame 55 ]
//!   the TX side:              63 handed on                       41 completed
//! ```
//!
//! Positions are read after the fact and include what others sent in between: a producer may be
//! let go a little late, and never early.

use std::collections::VecDeque;

use crate::sync::{AtomicU64, Ordering};

/// How far the TX side has come. Written by whoever transmits.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Progress {
    /// Frames that left the queue for the TX ring, or for good.
    handed: AtomicU64,
    /// Frames that the TX ring took, from the queue or past it.
    sent: AtomicU64,
    /// Frames that left the TX ring.
    completed: AtomicU64,
}

impl Progress {
    /// The TX ring took `taken` frames more, and has `pending` now.
    pub(super) fn sent(&self, taken: usize, pending: usize) {
        let sent = self.sent.load(Ordering::Relaxed) + taken as u64;
        self.sent.store(sent, Ordering::Relaxed);
        self.completed.store(sent.saturating_sub(pending as u64), Ordering::Relaxed);
    }

    /// Frames left the queue, after they were counted as sent.
    pub(super) fn handed(&self, frames: usize) {
        self.handed.fetch_add(frames as u64, Ordering::Release);
    }
}

/// What one producer has on its way.
#[derive(Debug)]
pub(super) struct SmallQueue {
    limit: u64,
    /// Bytes on their way.
    held: u64,
    /// Positions in the queue, and the bytes that are past the queue once it got there.
    queued: VecDeque<(u64, u64)>,
    /// Frame numbers of the TX ring, and the bytes that are gone once it got there.
    ringed: VecDeque<(u64, u64)>,
}

/// Most marks to keep; beyond that two become one, and the older frames wait for the younger.
const MARKS: usize = 64;

impl SmallQueue {
    pub(super) fn new(limit: u64) -> Self {
        let marks = || VecDeque::with_capacity(MARKS);
        Self { limit, held: 0, queued: marks(), ringed: marks() }
    }

    /// Bytes on their way.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// How many frames of these lengths may go: what keeps within the limit, and one frame if
    /// nothing is on its way.
    pub(super) fn admit(&self, lengths: impl Iterator<Item = usize>) -> usize {
        let mut held = self.held;
        lengths
            .take_while(|length| {
                let goes = held == 0 || held + *length as u64 <= self.limit;
                held += *length as u64;
                goes
            })
            .count()
    }

    /// Frames of `bytes` bytes are on their way, and reach up to `position` in the queue at most.
    pub(super) fn went(&mut self, bytes: u64, position: u64) {
        self.held += bytes;
        mark(&mut self.queued, position, bytes);
    }

    /// Takes note of what has arrived.
    pub(super) fn settle(&mut self, progress: &Progress) {
        // Acquire: what was handed on before is in `sent`.
        let handed = progress.handed.load(Ordering::Acquire);
        let sent = progress.sent.load(Ordering::Relaxed);
        while let Some((position, bytes)) = self.queued.front().copied()
            && position <= handed
        {
            self.queued.pop_front();
            mark(&mut self.ringed, sent, bytes);
        }
        let completed = progress.completed.load(Ordering::Relaxed);
        while let Some((number, bytes)) = self.ringed.front().copied()
            && number <= completed
        {
            self.ringed.pop_front();
            self.held -= bytes;
        }
    }
}

/// Adds a mark to those there are.
fn mark(marks: &mut VecDeque<(u64, u64)>, at: u64, bytes: u64) {
    let is_full = marks.len() == MARKS;
    match marks.back_mut() {
        Some(last) if is_full || last.0 == at => {
            last.0 = at;
            last.1 += bytes;
        }
        _ => marks.push_back((at, bytes)),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_held_until_the_ring_has_sent_them() {
        let progress = Progress::default();
        let mut small = SmallQueue::new(3000);
        assert_eq!(small.admit([1500, 1500, 1500].into_iter()), 2);
        small.went(3000, 2);
        assert_eq!(small.admit([60].into_iter()), 0);
        // Others' frames are ahead in the ring: five sent, among them both of ours.
        progress.sent(5, 5);
        progress.handed(2);
        small.settle(&progress);
        assert_eq!(small.held(), 3000, "in the ring");
        progress.sent(0, 1);
        small.settle(&progress);
        assert_eq!(small.held(), 3000, "one is left, and it may be ours");
        progress.sent(0, 0);
        small.settle(&progress);
        assert_eq!(small.held(), 0);
    }

    #[test]
    fn one_frame_always_goes() {
        let small = SmallQueue::new(100);
        assert_eq!(small.admit([9000, 60].into_iter()), 1);
    }

    #[test]
    fn many_marks_become_few_and_none_is_forgotten() {
        let progress = Progress::default();
        let mut small = SmallQueue::new(u64::MAX);
        for i in 1..=1000 {
            small.went(60, i);
        }
        assert!(small.queued.len() <= MARKS);
        progress.sent(1000, 0);
        progress.handed(1000);
        small.settle(&progress);
        assert_eq!(small.held(), 0);
    }
}
