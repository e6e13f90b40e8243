//! The size of a lock round: the 2014 qdisc paper's bulk dequeue.
//!
//! `bulk` is [`super::fifo::Fifo`] with a larger [`Round`]: the second pair of root lock operations
//! and the pair of TX lock operations are shared by all frames of a round ("Amortize root lock,
//! unlock+lock per N packets"). The source still pays the TX lock for every packet, "due to SKB's
//! have assigned a TXQ on enqueue"; here there is one discipline per TX queue, so the round shares
//! it as well: 2 + 4/n. A byte limit keeps a round of long frames from holding the TX lock for
//! long, as `try_bulk_dequeue_skb` in Linux 3.18 does (`net/sched/sch_generic.c`).

/// The most frames and bytes that one lock round takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round {
    packets: usize,
    bytes: u64,
}

impl Round {
    /// One frame per round.
    pub(super) const SINGLE: Self = Self { packets: 1, bytes: u64::MAX };
    /// Bytes of a round of `bulk`: the largest segmented packet of Linux.
    pub(super) const BYTES: u64 = 65_536;

    /// Up to `packets` frames, but at least one.
    pub(super) fn packets(packets: usize) -> Self {
        Self { packets, bytes: u64::MAX }
    }

    /// Up to `packets` frames and `bytes` bytes, but always one frame of any length.
    pub(super) fn new(packets: usize, bytes: u64) -> Self {
        Self { packets: packets.max(1), bytes }
    }

    /// Whether a round has only one frame.
    pub(super) fn is_single(self) -> bool {
        self.packets == 1
    }

    /// Whether a queue of `waiting` frames fills a round.
    #[inline]
    pub(super) fn is_filled_by(self, waiting: usize) -> bool {
        waiting >= self.packets
    }

    /// The budget of one round with room for `room` frames.
    #[inline]
    pub(super) fn budget(self, room: usize) -> Budget {
        Budget { packets: self.packets.min(room), bytes: self.bytes, taken: 0 }
    }
}

/// The rest of a round.
#[derive(Debug)]
pub(super) struct Budget {
    packets: usize,
    bytes: u64,
    taken: usize,
}

impl Budget {
    /// Whether a frame of `length` bytes fits the round. Counts it if so.
    #[inline]
    pub(super) fn admit(&mut self, length: u64) -> bool {
        if self.taken == self.packets || (length > self.bytes && self.taken > 0) {
            return false;
        }
        self.bytes = self.bytes.saturating_sub(length);
        self.taken += 1;
        true
    }

    /// Frames so far.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(round: Round, room: usize, lengths: &[u64]) -> usize {
        let mut budget = round.budget(room);
        let _ = lengths.iter().take_while(|length| budget.admit(**length)).count();
        budget.taken()
    }

    #[test]
    fn a_round_ends_by_frames_bytes_or_room() {
        assert_eq!(count(Round::SINGLE, 9, &[64; 9]), 1);
        assert_eq!(count(Round::new(8, 65_536), 64, &[64; 9]), 8);
        assert_eq!(count(Round::new(8, 65_536), 3, &[64; 9]), 3);
        assert_eq!(count(Round::new(8, 4_000), 64, &[1514; 9]), 2);
        assert_eq!(count(Round::new(8, 1_000), 64, &[1514; 9]), 1, "one always goes");
        assert_eq!(count(Round::packets(0), 64, &[64]), 0);
    }
}
