//! Distinguishes a full queue from a frame that the kernel will always refuse.
//!
//! The kernel answers ENOBUFS to both, and leaves the frame in the ring (`tpacket_snd`). Either a
//! queueing discipline, or the queue of a veth pair's other end, is full. Or this frame is always
//! dropped: by a rule of nft or tc at egress, or by the other end of a veth pair with a smaller MTU
//! (`is_skb_forwardable`). A full queue has room again soon, and often holds frames of this end. So
//! a frame that is refused for long, while the end has no other frame under way, is given up. While
//! other ends of the port have frames under way, it waits [`OTHERS`] times as long: these frames
//! may fill the queue. It does not wait for ever, because they may never pause.
//!
//! The time adapts. Each frame that is given up halves it: a rule that drops many frames must not
//! delay the others for long. A frame that leaves after all raises it to a multiple of its delay.
//! A time of zero sees no such frame. So every [`PROBE`]th frame waits at least [`SHORT`]. Each of
//! several frames that are given up in a row does so, too: all of them may wait for the same queue.
//!
//! Only time in which the caller tries counts: after a long pause the queue may be full again.

use std::time::Duration;

/// The initial and longest time.
const LONG: Duration = Duration::from_millis(100);
/// The minimum time after a frame that was given up, and for a probe.
const SHORT: Duration = Duration::from_millis(2);
/// A shorter time counts as zero.
const NONE: Duration = Duration::from_micros(100);
/// The factor from the delay of a full queue to the time.
const MARGIN: u32 = 8;
/// The factor while other ends have frames under way.
const OTHERS: u32 = 8;
/// One in eight frames that are given up waits at least [`SHORT`].
const PROBE: u32 = 8;
/// A pause between two attempts counts at least up to this length: `Transmitter::wait` sleeps this
/// long.
const PAUSE: Duration = Duration::from_micros(200);

/// The ends whose frames under way could fill a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnderWay {
    /// None, as far as the port knows.
    Nothing,
    /// Other ends of the port.
    Others,
    /// This end; or the interface sends nothing now.
    Own,
}

/// The frame that the kernel refuses now, and the time for the next one.
#[derive(Debug)]
pub(super) struct RefusedFrame {
    head: Option<Head>,
    /// The place of the frame that was given up, as long as none has left since.
    given_up: Option<u32>,
    /// The number of frames that were given up since the last probe.
    since_probe: u32,
    patience: Duration,
}

/// A frame that the kernel refuses.
#[derive(Debug)]
struct Head {
    place: u32,
    /// The times of the first and the last attempt on the monotonic clock.
    since: u64,
    last: u64,
    /// The time that counts: of each pause between two attempts at most half the patience, or
    /// [`PAUSE`]. So a frame has at least three attempts if it waits [`SHORT`] or longer.
    waited: Duration,
}

impl Head {
    fn new(place: u32, now: u64) -> Self {
        Self { place, since: now, last: now, waited: Duration::ZERO }
    }
}

impl RefusedFrame {
    pub(super) fn new() -> Self {
        Self { head: None, given_up: None, since_probe: 0, patience: LONG }
    }

    /// Whether [`RefusedFrame::end`] has something to note.
    #[inline(always)]
    pub(super) fn is_open(&self) -> bool {
        self.head.is_some() || self.given_up.is_some()
    }

    /// Frames have left by `now`.
    #[cold]
    pub(super) fn end(&mut self, now: u64) {
        if let Some(head) = self.head.take() {
            let took = Duration::from_nanos(now.saturating_sub(head.since));
            self.patience = self.patience.max(took.saturating_mul(MARGIN)).min(LONG);
        }
        self.given_up = None;
    }

    /// The frame that was refused is gone, but has not left: another one is in its place.
    #[cold]
    pub(super) fn forget(&mut self) {
        self.head = None;
    }

    /// The kernel refused the frame at `place` `now`. True if the frame must be given up, which
    /// `under_way` can prevent. Then the next frame takes its place.
    #[cold]
    pub(super) fn is_for_good(
        &mut self,
        place: u32,
        now: u64,
        under_way: impl FnOnce() -> UnderWay,
    ) -> bool {
        let is_new = self.head.as_ref().is_none_or(|head| head.place != place);
        if is_new && (self.head.is_some() || self.given_up != Some(place)) {
            // Frames before this one have left.
            self.end(now);
        }
        let is_probe = self.since_probe + 1 >= PROBE;
        let least = if is_probe || self.given_up.is_some() { SHORT } else { Duration::ZERO };
        let patience = self.patience.max(least);
        let head = self.head.get_or_insert_with(|| Head::new(place, now));
        let pause = Duration::from_nanos(now.saturating_sub(head.last));
        head.waited += pause.min(PAUSE.max(patience - patience / 2));
        head.last = now;
        let waited = head.waited;
        let is_over = waited >= patience
            && match under_way() {
                UnderWay::Nothing => true,
                UnderWay::Others => waited >= patience.max(NONE) * OTHERS,
                UnderWay::Own => false,
            };
        if is_over {
            self.patience = if self.patience < NONE { Duration::ZERO } else { self.patience / 2 };
            self.since_probe = if is_probe { 0 } else { self.since_probe + 1 };
            (self.head, self.given_up) = (None, Some(place));
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn nothing() -> UnderWay {
        UnderWay::Nothing
    }

    #[test]
    fn a_frame_is_given_up_after_a_while_if_nothing_is_under_way() {
        let mut refused = RefusedFrame::new();
        for now in 0..10 {
            assert!(!refused.is_for_good(7, 10 * now * MS, nothing), "{now}");
        }
        assert!(!refused.is_for_good(7, 100 * MS, || UnderWay::Own), "the queue may be full");
        assert!(refused.is_for_good(7, 101 * MS, nothing));
    }

    #[test]
    fn a_frame_waits_longer_while_others_send_but_not_for_ever() {
        let mut refused = RefusedFrame::new();
        let (mut now, before) = (0, refused.patience);
        while !refused.is_for_good(7, now, || UnderWay::Others) {
            now += MS;
        }
        assert_eq!(Duration::from_nanos(now), before * OTHERS);
        // Nor does a patience of zero give the frame up at once then.
        refused.end(now);
        refused.patience = Duration::ZERO;
        assert!(!refused.is_for_good(8, now, || UnderWay::Others));
    }

    #[test]
    fn where_many_are_refused_the_others_do_not_wait() {
        let mut refused = RefusedFrame::new();
        let mut now = 0;
        for place in 0..20 {
            // One leaves, then one is refused.
            while !refused.is_for_good(place, now, nothing) {
                now += MS / 10;
            }
        }
        assert!(now < 250 * MS, "{now}");
        // In a row each has a little time.
        let before = now;
        for _ in 0..3 {
            while !refused.is_for_good(20, now, nothing) {
                now += MS / 10;
            }
        }
        assert!((4 * MS..10 * MS).contains(&(now - before)), "{}", now - before);
    }

    #[test]
    fn a_full_queue_raises_the_time_again() {
        let mut refused = RefusedFrame::new();
        refused.patience = Duration::ZERO;
        refused.head = Some(Head::new(3, 0));
        refused.end(5 * MS);
        assert_eq!(refused.patience, Duration::from_millis(40));
        assert!(!refused.is_for_good(4, 6 * MS, nothing));
        refused.end(200 * MS);
        assert_eq!(refused.patience, LONG);
    }

    #[test]
    fn a_time_of_zero_does_not_stay_where_queues_are_full_at_times() {
        let mut refused = RefusedFrame::new();
        refused.patience = Duration::ZERO;
        let (mut now, mut lost) = (0, 0);
        for place in 0..100 {
            // Others leave first. Every third frame would leave after a millisecond.
            refused.end(now);
            let end = if place % 3 == 2 { now + MS } else { u64::MAX };
            loop {
                if now >= end {
                    refused.end(now);
                    break;
                }
                if refused.is_for_good(place, now, nothing) {
                    lost += u32::from(end < u64::MAX);
                    break;
                }
                now += MS / 10;
            }
            if refused.patience > SHORT {
                assert!(lost < PROBE, "{lost}");
                return;
            }
        }
        panic!("the patience is {:?}", refused.patience);
    }

    #[test]
    fn a_pause_of_the_caller_does_not_count() {
        let mut refused = RefusedFrame::new();
        assert!(!refused.is_for_good(7, 0, nothing));
        assert!(!refused.is_for_good(7, 10_000 * MS, nothing), "two attempts");
        assert!(refused.is_for_good(7, 20_000 * MS, nothing));
        // The next one in the same place, and one after it, after a stop in between.
        let start = 30_000 * MS;
        assert!(!refused.is_for_good(7, start, nothing));
        assert!(!refused.is_for_good(7, start + MS, nothing));
        assert!(!refused.is_for_good(7, start + 9_000 * MS, nothing));
    }

    #[test]
    fn the_next_frame_does_not_inherit_the_time_of_one_that_is_gone() {
        let mut refused = RefusedFrame::new();
        for now in 0..100 {
            assert!(!refused.is_for_good(0, now * MS, nothing));
        }
        refused.forget();
        assert!(!refused.is_for_good(0, 100 * MS, nothing));
        assert!(!refused.is_for_good(0, 101 * MS, nothing));
    }
}
