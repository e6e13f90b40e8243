//! Small queues (TSQ): limit the bytes in flight of one producer.
//!
//! A producer that is faster than the interface fills the queue, which delays all producers'
//! packets. Linux limits the bytes of one TCP socket in queue and TX ring (`tcp_small_queue_check`,
//! `net/ipv4/tcp_output.c`, since 3.6) and lets it continue after completions. The 2014 qdisc paper
//! asks whether the frames that pile up behind such a limit should be enqueued in bulk: here they
//! are, because a refused frame stays in its batch.
//!
//! Frames have no marks, and producers share no counter for this. The queue and the TX ring are
//! FIFOs, so a producer remembers the positions of its last frames in each, and compares them with
//! the progress of the TX side:
//!
//! ```text
//!   sent by this producer:  [ in the queue up to position 70 ] [ in the ring up to frame 55 ]
//!   the TX side:              63 handed on                       41 completed
//! ```
//!
//! Positions are read after sending and include frames that others sent in between: a producer may
//! continue slightly late, but never early.

use std::collections::VecDeque;

use crate::sync::{AtomicU64, Ordering};

/// The progress of the TX side, written by the transmitting thread.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct TxProgress {
    /// Frames that left the queue, for the TX ring or as purged.
    handed: AtomicU64,
    /// Frames that the TX ring accepted, through the queue or bypassing it.
    sent: AtomicU64,
    /// Frames that left the TX ring.
    completed: AtomicU64,
}

impl TxProgress {
    /// The TX ring accepted `taken` more frames, and has `pending` now.
    pub(super) fn sent(&self, taken: usize, pending: usize) {
        let sent = self.sent.load(Ordering::Relaxed) + taken as u64;
        self.sent.store(sent, Ordering::Relaxed);
        self.completed.store(sent.saturating_sub(pending as u64), Ordering::Relaxed);
    }

    /// Counts frames that left the queue, after they were counted as sent.
    pub(super) fn handed(&self, frames: usize) {
        self.handed.fetch_add(frames as u64, Ordering::Release);
    }
}

/// The frames of one producer in flight.
#[derive(Debug)]
pub(super) struct SmallQueue {
    limit: u64,
    /// Bytes in flight.
    held: u64,
    /// Positions in the queue, and the bytes that have left the queue at each.
    queued: VecDeque<(u64, u64)>,
    /// Frame numbers of the TX ring, and the bytes that were sent at each.
    ringed: VecDeque<(u64, u64)>,
}

/// The most marks. Beyond this, two are merged, so that older frames wait for younger ones.
const MARKS: usize = 64;

impl SmallQueue {
    pub(super) fn new(limit: u64) -> Self {
        let marks = || VecDeque::with_capacity(MARKS);
        Self { limit, held: 0, queued: marks(), ringed: marks() }
    }

    /// Bytes in flight.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// How many frames of these lengths may be sent: as many as fit the limit, or one if none is in
    /// flight.
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

    /// Records frames of `bytes` bytes, which reach at most `position` in the queue.
    pub(super) fn went(&mut self, bytes: u64, position: u64) {
        self.held += bytes;
        mark(&mut self.queued, position, bytes);
    }

    /// Removes frames that were sent.
    pub(super) fn settle(&mut self, progress: &TxProgress) {
        // Acquire: frames handed on before are included in `sent`.
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

/// Adds a mark.
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
        let progress = TxProgress::default();
        let mut small = SmallQueue::new(3000);
        assert_eq!(small.admit([1500, 1500, 1500].into_iter()), 2);
        small.went(3000, 2);
        assert_eq!(small.admit([60].into_iter()), 0);
        // Frames of another producer are ahead in the ring: five were sent, including both of this
        // producer.
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
        let progress = TxProgress::default();
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
