//! Distinguishes a full queue from a frame that the kernel will always refuse.
//!
//! The kernel answers ENOBUFS to both, and leaves the frame in the ring (`tpacket_snd`). Either a
//! queueing discipline, or the queue of a veth pair's other end, is full. Or this frame is always
//! dropped: by a rule of nft or tc at egress, or by the other end of a veth pair with a smaller MTU
//! (`is_skb_forwardable`). A full queue has room again soon, and holds mostly frames of this
//! socket. So a frame that is refused for long, while the socket has no other frame under way, is
//! given up.
//!
//! The time adapts. Each frame that is given up halves it: a rule that drops many frames must not
//! delay the others for long. A frame that leaves after all raises it to a multiple of its delay.
//! Each of several frames that are given up in a row waits at least [`SHORT`]: all of them may wait
//! for the same queue.

use std::time::Duration;

/// The first and the longest time.
const LONG: Duration = Duration::from_millis(100);
/// The shortest time after a frame that was given up.
const SHORT: Duration = Duration::from_millis(2);
/// A shorter time counts as zero.
const NONE: Duration = Duration::from_micros(100);
/// The factor from the delay of a full queue to the time.
const MARGIN: u32 = 8;

/// The frame that the kernel refuses now, and the time for the next one.
#[derive(Debug)]
pub(super) struct Refused {
    /// The place of the frame, and the time on the monotonic clock when it was first refused.
    head: Option<(u32, u64)>,
    /// The place of the frame that was given up, as long as none has left since.
    given_up: Option<u32>,
    patience: Duration,
}

impl Refused {
    pub(super) fn new() -> Self {
        Self { head: None, given_up: None, patience: LONG }
    }

    /// Whether [`Refused::end`] has something to note.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.head.is_some() || self.given_up.is_some()
    }

    /// Frames have left by `now`.
    #[cold]
    pub(super) fn end(&mut self, now: u64) {
        if let Some((_, since)) = self.head.take() {
            let took = Duration::from_nanos(now.saturating_sub(since));
            self.patience = self.patience.max(took.saturating_mul(MARGIN)).min(LONG);
        }
        self.given_up = None;
    }

    /// The kernel refused the frame at `place` `now`. True if the frame must be given up. `is_idle`
    /// must confirm this: no frame is under way that could fill a queue. Then the next frame takes
    /// its place.
    #[cold]
    pub(super) fn is_for_good(
        &mut self,
        place: u32,
        now: u64,
        is_idle: impl FnOnce() -> bool,
    ) -> bool {
        let since = match self.head {
            Some((head, since)) if head == place => since,
            Some(_) => self.begin(place, now),
            None if self.given_up == Some(place) => {
                self.head = Some((place, now));
                now
            }
            None => self.begin(place, now),
        };
        let least = if self.given_up.is_some() { SHORT } else { Duration::ZERO };
        let patience = self.patience.max(least);
        if Duration::from_nanos(now.saturating_sub(since)) < patience || !is_idle() {
            return false;
        }
        self.patience = if self.patience < NONE { Duration::ZERO } else { self.patience / 2 };
        (self.head, self.given_up) = (None, Some(place));
        true
    }

    /// Frames before the one at `place` have left.
    fn begin(&mut self, place: u32, now: u64) -> u64 {
        self.end(now);
        self.head = Some((place, now));
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_frame_is_given_up_after_a_while_if_nothing_is_under_way() {
        let mut refused = Refused::new();
        assert!(!refused.is_for_good(7, 0, || true));
        assert!(!refused.is_for_good(7, 99 * MS, || true));
        assert!(!refused.is_for_good(7, 100 * MS, || false), "the queue may be full");
        assert!(refused.is_for_good(7, 101 * MS, || true));
    }

    #[test]
    fn where_many_are_refused_the_others_do_not_wait() {
        let mut refused = Refused::new();
        let mut now = 0;
        for place in 0..20 {
            // One leaves, then one is refused.
            while !refused.is_for_good(place, now, || true) {
                now += MS / 10;
            }
        }
        assert!(now < 250 * MS, "{now}");
        // In a row each has a little time.
        let before = now;
        for _ in 0..3 {
            while !refused.is_for_good(20, now, || true) {
                now += MS / 10;
            }
        }
        assert!((4 * MS..10 * MS).contains(&(now - before)), "{}", now - before);
    }

    #[test]
    fn a_full_queue_raises_the_time_again() {
        let mut refused = Refused::new();
        refused.patience = Duration::ZERO;
        refused.head = Some((3, 0));
        refused.end(5 * MS);
        assert_eq!(refused.patience, Duration::from_millis(40));
        assert!(!refused.is_for_good(4, 6 * MS, || true));
        refused.end(200 * MS);
        assert_eq!(refused.patience, LONG);
    }
}
