//! When packets leave: an absolute schedule per thread, which neither drifts nor bursts.
//!
//! A packet is due at `start + at`, whatever the others did: an error does not add up. The thread
//! sleeps until shortly before, then watches the clock. What is due by then leaves in one batch, so
//! that batches grow with the rate by themselves, and a slow stream leaves packet by packet.
//!
//! A thread that was held up finds more packets due than a burst. The rest is not sent at once: it
//! is delayed, and the delay is made up at a bounded pace. That is 8/7 of the rate for a delay of
//! up to 5 ms, twice the rate up to 20 ms, and otherwise four times, which a thread needs that has
//! a quarter of a crowded CPU. A delay of more than [`Pacer::LONGEST_DELAY`] is not made up: the
//! schedule moves, and says so.
//!
//! Who measures wants no more than the rate at any time, because a catch-up may be what a device
//! loses. Then ([`Pacing::make_up`] is false) only what is shorter than [`Pacer::SHORT_DELAY`] is
//! made up, at 8/7 of the rate, and any longer delay moves the schedule.
//!
//! Watching the clock uses up the time that the scheduler has for a thread. Where others want the
//! CPU, it is then taken away when a packet is due. So a thread that loses its CPU often only
//! sleeps for a while, which is less exact to the microsecond, and much more to the millisecond.

use std::hint;
use std::time::Duration;

use wirelane_os::clock;

/// How exactly to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pacing {
    /// Most packets that leave back to back when several are due; 1 to 64.
    pub burst: usize,
    /// Packets due within this time leave together.
    pub horizon: Duration,
    /// Make up delays by sending faster for a while. If not, a delay moves the schedule: sending
    /// takes longer, and beyond one burst never exceeds its rate. Packet sockets and AF_XDP keep to
    /// it.
    pub make_up: bool,
}

impl Pacing {
    /// The largest burst.
    pub const LARGEST_BURST: usize = 64;

    /// With bursts of at most so many packets.
    #[must_use]
    pub fn burst(self, packets: usize) -> Self {
        Self { burst: packets.clamp(1, Self::LARGEST_BURST), ..self }
    }

    /// With packets due within `time` of each other leaving together.
    #[must_use]
    pub fn horizon(self, time: Duration) -> Self {
        Self { horizon: time, ..self }
    }

    /// Whether delays are made up.
    #[must_use]
    pub fn make_up(self, make_up: bool) -> Self {
        Self { make_up, ..self }
    }
}

impl Default for Pacing {
    /// Bursts of 32, a microsecond, and delays are made up.
    fn default() -> Self {
        Self { burst: 32, horizon: Duration::from_micros(1), make_up: true }
    }
}

/// The schedule of one thread.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// On the monotonic clock, with all moves.
    start: u64,
    horizon: u64,
    /// A longer delay moves the schedule.
    longest: u64,
    delay: Delay,
    /// How long before a departure sleeping ends.
    margin: u64,
    crowd: Crowd,
    moved: u64,
    moves: u64,
}

/// What was due at `since` was delayed by so many nanoseconds, of which `eighths` of the time are
/// made up.
#[derive(Clone, Copy, Debug, Default)]
struct Delay {
    since: u64,
    by: u64,
    eighths: u64,
}

impl Delay {
    fn new(since: u64, by: u64) -> Self {
        let eighths = match by {
            0..=5_000_000 => 1,
            5_000_001..=20_000_000 => 4,
            _ => 6,
        };
        Self { since, by, eighths }
    }

    /// What is left of it at `at`.
    #[inline]
    fn left(&self, at: u64) -> u64 {
        let gone = at.saturating_sub(self.since);
        self.by.saturating_sub((gone / 8).saturating_mul(self.eighths))
    }
}

/// Whether others want the CPU, too: how long this thread was kept from it lately.
#[derive(Clone, Copy, Debug, Default)]
struct Crowd {
    /// Nanoseconds, halved after each [`Crowd::HALF`].
    lost: u64,
    at: u64,
    is_crowded: bool,
}

impl Crowd {
    const HALF: u64 = 50_000_000;
    /// A shorter absence is an interrupt.
    const SHORTEST: u64 = 200_000;
    /// From so much on the CPU is crowded, and until there is less than this again.
    const LIMITS: (u64, u64) = (10_000_000, 1_000_000);

    /// The thread should have been on the CPU `gap` nanoseconds before `now`.
    #[inline]
    fn see(&mut self, gap: u64, now: u64) {
        if gap > Self::SHORTEST || self.is_crowded {
            self.update(gap, now);
        }
    }

    #[cold]
    fn update(&mut self, gap: u64, now: u64) {
        let halvings = now.saturating_sub(self.at) / Self::HALF;
        self.lost = self.lost.checked_shr(halvings.min(64) as u32).unwrap_or(0);
        if halvings > 0 {
            self.at = now;
        }
        if gap > Self::SHORTEST {
            self.lost += gap;
        }
        let (most, least) = Self::LIMITS;
        self.is_crowded = self.lost > if self.is_crowded { least } else { most };
    }
}

impl Pacer {
    /// A delay above this many nanoseconds moves the schedule.
    pub const LONGEST_DELAY: u64 = 1_000_000_000;
    /// And so does one above this where delays are not to be made up. Fast traffic has shorter ones
    /// all the time.
    pub const SHORT_DELAY: u64 = 100_000;
    /// How long before a departure sleeping ends, at first and within which limits; nanoseconds.
    /// What is later than that was kept off its CPU: watching the clock would not help, but use up
    /// the time that the scheduler has for this thread.
    const MARGIN: u64 = 60_000;
    const MARGINS: (u64, u64) = (20_000, 150_000);

    /// Departures are counted from `start` on the monotonic clock.
    pub fn new(start: u64, pacing: Pacing) -> Self {
        let horizon = u64::try_from(pacing.horizon.as_nanos()).unwrap_or(u64::MAX);
        Self {
            start,
            horizon,
            longest: if pacing.make_up { Self::LONGEST_DELAY } else { Self::SHORT_DELAY },
            delay: Delay::default(),
            margin: Self::MARGIN,
            crowd: Crowd::default(),
            moved: 0,
            moves: 0,
        }
    }

    /// When the packet scheduled for `at` is to leave, with what is left of a delay.
    #[inline]
    pub fn due(&self, at: u64) -> u64 {
        self.scheduled(at).saturating_add(self.delay.left(at))
    }

    /// When the packet scheduled for `at` would leave without a delay.
    #[inline]
    pub fn scheduled(&self, at: u64) -> u64 {
        self.start.saturating_add(at)
    }

    /// Until when packets are due that leave together with one that leaves `now`.
    #[inline]
    pub fn until(&self, now: u64) -> u64 {
        now.saturating_add(self.horizon)
    }

    /// A whole burst has left by `now`. If the next packet, scheduled for `at`, is overdue even so,
    /// it and the rest are delayed.
    #[inline]
    pub fn after_burst(&mut self, at: u64, now: u64) {
        let delay = now.saturating_sub(self.scheduled(at));
        if at == 0 || now <= self.due(at) {
            return;
        }
        if delay > self.longest {
            self.move_by(delay);
        } else {
            self.delay = Delay::new(at, delay);
        }
    }

    fn move_by(&mut self, time: u64) {
        self.start += time;
        self.moved += time;
        self.moves += 1;
        self.delay = Delay::default();
    }

    /// Nanoseconds by which the schedule was moved in all, and how often.
    pub fn moved(&self) -> (u64, u64) {
        (self.moved, self.moves)
    }

    /// Waits until `due`, at most until `limit`; returns the time then. Sleeps when it is far,
    /// watches the clock when it is near.
    pub fn wait(&mut self, now: u64, due: u64, limit: u64) -> u64 {
        let until = due.min(limit);
        let margin = if self.crowd.is_crowded { 0 } else { self.margin };
        let asleep = until.saturating_sub(margin);
        let mut now = now;
        if now < asleep {
            clock::sleep_until(asleep);
            now = clock::monotonic_ns();
            let late = now.saturating_sub(asleep);
            self.learn(late);
            self.crowd.see(late, now);
        }
        while now < until {
            hint::spin_loop();
            let before = now;
            now = clock::monotonic_ns();
            self.crowd.see(now - before, now);
        }
        now
    }

    /// Sleeping ended `late` nanoseconds after it should have.
    fn learn(&mut self, late: u64) {
        let (least, most) = Self::MARGINS;
        let is_latency = late < most;
        let margin =
            if late > self.margin / 2 && is_latency { 2 * late } else { self.margin * 31 / 32 };
        self.margin = margin.clamp(least, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_is_not_held_up_is_due_as_scheduled() {
        let mut pacer = Pacer::new(1000, Pacing::default());
        pacer.after_burst(50, 1040);
        assert_eq!((pacer.due(50), pacer.due(5_000), pacer.moved()), (1050, 6000, (0, 0)));
    }

    #[test]
    fn a_delay_is_made_up_at_a_bounded_pace() {
        let mut pacer = Pacer::new(0, Pacing::default());
        pacer.after_burst(10 * MS, 14 * MS);
        let delays = [10, 18, 26, 42, 50].map(|at| pacer.due(at * MS) - at * MS);
        assert_eq!(delays, [4 * MS, 3 * MS, 2 * MS, 0, 0]);
        // Held up again meanwhile: from what is left.
        pacer.after_burst(18 * MS, 21 * MS + 500);
        assert_eq!(pacer.due(18 * MS), 21 * MS + 500);
        // In time for what is delayed: nothing changes.
        pacer.after_burst(26 * MS, 28 * MS);
        assert_eq!(pacer.due(26 * MS), 28 * MS + 500);
        // A longer delay is made up faster.
        for (delay, after, left) in [(20, 8, 16), (40, 8, 34), (40, 80, 0)] {
            let mut pacer = Pacer::new(0, Pacing::default());
            pacer.after_burst(MS, MS + delay * MS);
            assert_eq!(pacer.due(MS + after * MS), MS + (after + left) * MS);
        }
    }

    #[test]
    fn who_loses_the_cpu_often_only_sleeps_for_a_while() {
        let mut crowd = Crowd::default();
        crowd.see(4 * MS, 100 * MS);
        assert!(!crowd.is_crowded, "once is chance");
        crowd.see(4 * MS, 108 * MS);
        crowd.see(4 * MS, 116 * MS);
        assert!(crowd.is_crowded);
        crowd.see(1000, 200 * MS);
        assert!(crowd.is_crowded);
        crowd.see(1000, 500 * MS);
        assert!(!crowd.is_crowded);
    }

    #[test]
    fn a_long_delay_moves_the_schedule() {
        let mut pacer = Pacer::new(0, Pacing::default());
        pacer.after_burst(10 * MS, 10 * MS + Pacer::LONGEST_DELAY + 7);
        assert_eq!(pacer.moved(), (Pacer::LONGEST_DELAY + 7, 1));
        assert_eq!(pacer.due(20 * MS), 20 * MS + Pacer::LONGEST_DELAY + 7);
        assert_eq!(pacer.scheduled(20 * MS), pacer.due(20 * MS));
    }

    #[test]
    fn who_measures_never_exceeds_the_rate() {
        let mut pacer = Pacer::new(0, Pacing::default().make_up(false));
        pacer.after_burst(10 * MS, 14 * MS);
        assert_eq!((pacer.due(10 * MS), pacer.due(11 * MS)), (14 * MS, 15 * MS));
        assert_eq!(pacer.moved(), (4 * MS, 1));
        // What fast traffic has all the time is made up, nearly at the rate.
        pacer.after_burst(20 * MS, 24 * MS + Pacer::SHORT_DELAY);
        assert_eq!(pacer.due(20 * MS), 24 * MS + Pacer::SHORT_DELAY);
        assert_eq!((pacer.due(21 * MS), pacer.moved()), (25 * MS, (4 * MS, 1)));
    }

    #[test]
    fn what_has_no_time_is_never_late() {
        let mut pacer = Pacer::new(0, Pacing::default());
        pacer.after_burst(0, 10_000 * MS);
        assert_eq!((pacer.due(0), pacer.moved()), (0, (0, 0)));
    }

    #[test]
    fn waiting_ends_when_it_is_due() {
        let now = clock::monotonic_ns();
        let mut pacer = Pacer::new(now, Pacing::default());
        for wait in [0, 10_000, 3 * MS] {
            let now = clock::monotonic_ns();
            assert!(pacer.wait(now, now + wait, u64::MAX) >= now + wait);
        }
        let now = clock::monotonic_ns();
        let woken = pacer.wait(now, now + 3_600_000 * MS, now + MS);
        assert!((now + MS..now + 60_000 * MS).contains(&woken), "the limit counts");
    }
}
