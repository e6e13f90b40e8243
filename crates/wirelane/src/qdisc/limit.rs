//! Byte queue limits (BQL): how many bytes may be in a TX ring, learned from its completions.
//!
//! The discipline can neither drop nor overtake frames in the TX ring, so a deep ring adds hidden
//! latency. With too few frames, the interface runs dry between two completions. The right limit
//! depends on the interface, its speed and its completion interval, so it is learned, with the
//! algorithm that Tom Herbert published for Linux 3.3 (`dql_completed` in
//! `lib/dynamic_queue_limits.c`, described in `include/linux/dynamic_queue_limits.h`):
//!
//! * The ring ran dry although frames were held back: the limit was too low. It grows by the bytes
//!   completed beyond those queued at the last completion.
//! * The ring never ran dry: some bytes of the limit were *slack*, never needed between two
//!   completions. The limit shrinks by the least slack of a hold time.
//!
//! Unlike the kernel's, these counts have 64 bits, and the caller passes the time.

use std::collections::VecDeque;

/// The limit in bytes of one TX ring, which adapts to its completions.
#[derive(Clone, Debug)]
pub(super) struct TxByteLimit {
    bounds: Bounds,
    limit: u64,
    /// Bytes queued and completed since the start.
    queued: u64,
    completed: u64,
    /// Bytes of the last call of [`TxByteLimit::queued`].
    last_queued: u64,
    /// The state at the last completion.
    previous_queued: u64,
    previous_last_queued: u64,
    previous_over: u64,
    /// The least slack of the current hold time, and the start of that time.
    lowest_slack: u64,
    slack_since: u64,
}

/// Bounds of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The minimum in bytes.
    pub min: u64,
    /// The maximum in bytes.
    pub max: u64,
    /// How long slack must last before the limit shrinks, in nanoseconds.
    pub hold: u64,
}

impl Default for Bounds {
    /// The kernel's bounds: no minimum, half of the 32-bit range, one second.
    fn default() -> Self {
        Self { min: 0, max: u64::from(u32::MAX / 2), hold: 1_000_000_000 }
    }
}

impl TxByteLimit {
    /// Starts at the minimum.
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            limit: bounds.min,
            queued: 0,
            completed: 0,
            last_queued: 0,
            previous_queued: 0,
            previous_last_queued: 0,
            previous_over: 0,
            lowest_slack: u64::MAX,
            slack_since: 0,
        }
    }

    /// The limit of bytes in the ring.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes in the ring.
    pub(super) fn inflight(&self) -> u64 {
        self.queued - self.completed
    }

    /// Bytes that may be added. While it is not negative, one more frame of any length may be
    /// added.
    #[inline]
    pub(super) fn available(&self) -> i64 {
        self.limit as i64 - self.inflight() as i64
    }

    /// Counts bytes put into the ring.
    #[inline]
    pub(super) fn queued(&mut self, bytes: u64) {
        self.last_queued = bytes;
        self.queued += bytes;
    }

    /// Counts bytes that left the ring at time `now` in nanoseconds, but no more than it has.
    pub(super) fn completed(&mut self, bytes: u64, now: u64) {
        let before = self.completed;
        let completed = before + bytes.min(self.inflight());
        let over = self.inflight().saturating_sub(self.limit);
        let in_progress = self.queued - completed;
        let was_in_progress = self.previous_queued.saturating_sub(before);
        let is_previous_done = completed >= self.previous_queued;
        let mut limit = self.limit;
        if (over > 0 && in_progress == 0) || (self.previous_over > 0 && is_previous_done) {
            // The ring ran dry while frames were held back.
            limit += completed.saturating_sub(self.previous_queued) + self.previous_over;
            self.slack_since = now;
            self.lowest_slack = u64::MAX;
        } else if in_progress > 0 && was_in_progress > 0 && !is_previous_done {
            // The ring was busy between the last two completions. Completions may come late by one
            // interval, hence twice; and frames over the limit needed their excess.
            let needed = 2 * (completed - before);
            let slack = (limit + self.previous_over).saturating_sub(needed);
            let last = match self.previous_over {
                0 => 0,
                over => self.previous_last_queued.saturating_sub(over),
            };
            self.lowest_slack = self.lowest_slack.min(slack.max(last));
            if now > self.slack_since.saturating_add(self.bounds.hold) {
                limit = limit.saturating_sub(self.lowest_slack);
                self.slack_since = now;
                self.lowest_slack = u64::MAX;
            }
        }
        let limit = limit.clamp(self.bounds.min, self.bounds.max.max(self.bounds.min));
        // The excess over an old limit does not apply to the new one.
        self.previous_over = if limit == self.limit { over } else { 0 };
        self.limit = limit;
        self.completed = completed;
        self.previous_last_queued = self.last_queued;
        self.previous_queued = self.queued;
    }
}

/// A [`TxByteLimit`] for a ring that reports the number of *frames* in it.
#[derive(Debug)]
pub(super) struct FrameLimit {
    pub(super) bytes: TxByteLimit,
    /// The lengths of the frames in the ring, oldest first.
    lengths: VecDeque<u32>,
    /// How often the limit stopped the queue.
    pub(super) held: u64,
}

impl FrameLimit {
    pub(super) fn new() -> Self {
        let lengths = VecDeque::with_capacity(4096);
        Self { bytes: TxByteLimit::new(Bounds::default()), lengths, held: 0 }
    }

    /// How many frames of these lengths may be sent now: until the limit is reached or exceeded.
    pub(super) fn admit(&self, lengths: impl Iterator<Item = usize>) -> usize {
        let mut available = self.bytes.available();
        lengths
            .take_while(|length| {
                let goes = available >= 0;
                available -= *length as i64;
                goes
            })
            .count()
    }

    /// Records frames of these lengths before they are offered to the ring.
    pub(super) fn offer(&mut self, lengths: impl Iterator<Item = usize>) {
        self.lengths.extend(lengths.map(|length| length as u32));
    }

    /// Of the frames offered last, the ring accepted `taken` and left `left`.
    pub(super) fn taken(&mut self, taken: usize, left: usize) {
        self.lengths.truncate(self.lengths.len().saturating_sub(left));
        let new = self.lengths.iter().rev().take(taken);
        let bytes = new.map(|length| u64::from(*length)).sum();
        if taken > 0 {
            self.bytes.queued(bytes);
        }
    }

    /// The ring has `pending` frames left.
    pub(super) fn settle(&mut self, pending: usize, now: u64) {
        let done = self.lengths.len().saturating_sub(pending);
        if done > 0 {
            let bytes = self.lengths.drain(..done).map(u64::from).sum();
            self.bytes.completed(bytes, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const FRAME: u64 = 1500;

    /// A link that completes `rate` bytes per millisecond, in one completion per `interval`
    /// milliseconds, with a producer that always has more. Returns the limit and the bytes by
    /// which the link ran dry, of the last 1000 intervals.
    fn drive(limit: &mut TxByteLimit, rate: u64, interval: u64, from: u64) -> (u64, u64) {
        let (mut now, mut dry) = (from, 0);
        for round in 0..3000 {
            while limit.available() >= 0 {
                limit.queued(FRAME);
            }
            now += interval * MS;
            let sent = limit.inflight().min(rate * interval / FRAME * FRAME);
            if round >= 2000 {
                dry += rate * interval / FRAME * FRAME - sent;
            }
            limit.completed(sent, now);
        }
        (limit.limit(), dry)
    }

    #[test]
    fn one_frame_always_goes_and_then_the_queue_stops_until_the_limit_grows() {
        let mut limit = TxByteLimit::new(Bounds::default());
        assert!(limit.available() >= 0);
        limit.queued(1500);
        assert!(limit.available() < 0);
        // It ran dry.
        limit.completed(1500, 1_000);
        assert_eq!((limit.limit(), limit.inflight()), (1500, 0));
    }

    #[test]
    fn converges_to_what_the_link_needs_and_follows_it() {
        let mut limit = TxByteLimit::new(Bounds::default());
        // 100 Mbit/s, completions every 4 ms: 50 kB per interval.
        let (at_100m, dry) = drive(&mut limit, 12_500, 4, 0);
        assert_eq!(dry, 0, "the link never idles once the limit is learnt");
        assert!((48_000..=2 * 50_000 + FRAME).contains(&at_100m), "{at_100m}");
        // Ten times faster: it grows. Back to the old rate: it shrinks again.
        let (at_1g, dry) = drive(&mut limit, 125_000, 4, 20_000 * MS);
        assert_eq!(dry, 0);
        assert!((480_000..=2 * 500_000 + FRAME).contains(&at_1g), "{at_1g}");
        let (back, dry) = drive(&mut limit, 12_500, 4, 40_000 * MS);
        assert_eq!(dry, 0);
        assert!((48_000..=2 * 50_000 + FRAME).contains(&back), "{back}");
    }

    #[test]
    fn bounds_hold() {
        let mut limit = TxByteLimit::new(Bounds { min: 3_000, max: 20_000, hold: 1 });
        assert_eq!(limit.limit(), 3_000);
        assert_eq!(drive(&mut limit, 125_000, 4, 0).0, 20_000);
    }

    #[test]
    fn a_queue_that_is_not_held_back_learns_nothing() {
        let mut limit = TxByteLimit::new(Bounds { min: 10_000, ..Bounds::default() });
        for now in 0..1000 {
            limit.queued(FRAME);
            limit.completed(FRAME, now * MS);
        }
        assert_eq!(limit.limit(), 10_000, "the ring runs dry, but nothing was held back");
    }

    #[test]
    fn frames_become_bytes() {
        let mut limit = FrameLimit::new();
        assert_eq!(limit.admit([64, 64].into_iter()), 1);
        limit.offer([64, 1500, 100].into_iter());
        limit.taken(2, 1);
        assert_eq!(limit.bytes.inflight(), 1564);
        limit.settle(1, 1);
        assert_eq!(limit.bytes.inflight(), 1500);
        limit.settle(0, 2);
        limit.settle(0, 3);
        assert_eq!(limit.bytes.inflight(), 0);
    }

    proptest! {
        /// Whatever happens: no overflow, the count in flight is right, and a ring that is empty
        /// never holds the queue back.
        #[test]
        fn any_course_is_safe(steps in proptest::collection::vec((0_u64..20_000, 0_u64..40_000, 0_u64..2_000_000_000), 1..200)) {
            let mut limit = TxByteLimit::new(Bounds::default());
            let (mut inflight, mut now) = (0_u64, 0);
            for (queue, complete, time) in steps {
                if limit.available() >= 0 && queue > 0 {
                    limit.queued(queue);
                    inflight += queue;
                }
                now += time;
                limit.completed(complete, now);
                inflight -= complete.min(inflight);
                prop_assert_eq!(limit.inflight(), inflight);
                prop_assert!(inflight > 0 || limit.available() >= 0);
            }
        }
    }
}
