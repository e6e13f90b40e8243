//! Departure times: an absolute schedule per thread, without drift.
//!
//! A packet is due at `start + at`, independently of earlier packets, so errors do not accumulate.
//! The thread sleeps until shortly before, then polls the clock. All packets that are due leave in
//! one batch: batches grow with the rate, and a slow stream leaves packet by packet.
//!
//! After a delay of the thread, more packets are due than one burst. The thread delays the rest and
//! catches up at a bounded rate: at 8/7 of the rate for a delay of up to 5 ms, twice the rate up to
//! 20 ms, and four times the rate otherwise. A thread that gets a quarter of a crowded CPU needs
//! the last one. After a delay of more than [`Pacer::LONGEST_DELAY`], the schedule moves, and
//! [`Pacer::moved`] reports it.
//!
//! A measurement must not exceed the rate: the device under test may lose packets of a faster
//! catch-up. With [`Pacing::make_up`] off, the thread catches up only after delays of up to
//! [`Pacer::SHORT_DELAY`], at 8/7 of the rate. A longer delay moves the schedule.
//!
//! Polling the clock uses up the time slice of the thread. If other threads compete for the CPU,
//! the scheduler then preempts the thread when a packet is due. So a thread that is often preempted
//! stops polling for a while and only sleeps. This costs microseconds of precision and saves
//! milliseconds of delay.

use std::hint;
use std::time::Duration;

use wirelane_os::clock;

/// How precisely to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pacing {
    /// The largest number of packets that leave back to back when several are due, 1 to 64.
    pub burst: usize,
    /// Packets due within this time leave together.
    pub horizon: Duration,
    /// Catch up after a delay by sending faster for a while. If false, a delay moves the schedule:
    /// sending takes longer, and beyond one burst it does not exceed 8/7 of its rate. The kernel
    /// engine catches up in either case.
    pub make_up: bool,
}

impl Pacing {
    /// The largest burst.
    pub const LARGEST_BURST: usize = 64;

    /// Sets the largest burst, limited to 1 to [`LARGEST_BURST`](Self::LARGEST_BURST) packets.
    #[must_use]
    pub fn burst(self, packets: usize) -> Self {
        Self { burst: packets.clamp(1, Self::LARGEST_BURST), ..self }
    }

    /// Lets packets that are due within `time` leave together.
    #[must_use]
    pub fn horizon(self, time: Duration) -> Self {
        Self { horizon: time, ..self }
    }

    /// Sets whether the thread catches up after a delay.
    #[must_use]
    pub fn make_up(self, make_up: bool) -> Self {
        Self { make_up, ..self }
    }
}

impl Default for Pacing {
    /// Bursts of 32, a horizon of one microsecond, with catching up.
    fn default() -> Self {
        Self { burst: 32, horizon: Duration::from_micros(1), make_up: true }
    }
}

/// The schedule of one thread.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// The start on the monotonic clock, including all moves.
    start: u64,
    horizon: u64,
    /// The longest delay, in nanoseconds, that does not move the schedule.
    longest: u64,
    delay: PacingDelay,
    /// How long before a departure the sleep ends.
    margin: u64,
    crowd: Crowd,
    moved: u64,
    moves: u64,
}

/// A delay of `by` nanoseconds at the scheduled time `since`. It shrinks by `eighths` eighths of
/// the time that passes in the schedule.
#[derive(Clone, Copy, Debug, Default)]
struct PacingDelay {
    since: u64,
    by: u64,
    eighths: u64,
}

impl PacingDelay {
    fn new(since: u64, by: u64) -> Self {
        let eighths = match by {
            0..=5_000_000 => 1,
            5_000_001..=20_000_000 => 4,
            _ => 6,
        };
        Self { since, by, eighths }
    }

    /// The delay that remains at `at`.
    #[inline]
    fn left(&self, at: u64) -> u64 {
        let gone = at.saturating_sub(self.since);
        self.by.saturating_sub((gone / 8).saturating_mul(self.eighths))
    }
}

/// Whether other threads compete for the CPU, measured by the time for which this thread recently
/// did not run.
#[derive(Clone, Copy, Debug, Default)]
struct Crowd {
    /// Lost nanoseconds, halved every [`Crowd::HALF`].
    lost: u64,
    at: u64,
    is_crowded: bool,
}

impl Crowd {
    const HALF: u64 = 50_000_000;
    /// A shorter absence is an interrupt.
    const SHORTEST: u64 = 200_000;
    /// The CPU counts as crowded above the first value, until the loss falls to the second.
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
    /// The same limit with [`Pacing::make_up`] off. Shorter delays are normal in fast traffic.
    pub const SHORT_DELAY: u64 = 100_000;
    /// How long before a departure the sleep ends, in nanoseconds: the initial value.
    const MARGIN: u64 = 60_000;
    /// The limits of the margin. A later wake-up means that the thread was preempted. A larger
    /// margin would not help then: polling would use up the time slice.
    const MARGINS: (u64, u64) = (20_000, 150_000);

    /// Departures are counted from `start` on the monotonic clock.
    pub fn new(start: u64, pacing: Pacing) -> Self {
        let horizon = u64::try_from(pacing.horizon.as_nanos()).unwrap_or(u64::MAX);
        Self {
            start,
            horizon,
            longest: if pacing.make_up { Self::LONGEST_DELAY } else { Self::SHORT_DELAY },
            delay: PacingDelay::default(),
            margin: Self::MARGIN,
            crowd: Crowd::default(),
            moved: 0,
            moves: 0,
        }
    }

    /// When the packet scheduled for `at` should leave, including the remaining delay.
    #[inline]
    pub fn due(&self, at: u64) -> u64 {
        self.scheduled(at).saturating_add(self.delay.left(at))
    }

    /// When the packet scheduled for `at` would leave without a delay.
    #[inline]
    pub fn scheduled(&self, at: u64) -> u64 {
        self.start.saturating_add(at)
    }

    /// The end of the horizon: packets due by this time leave together with one that leaves `now`.
    #[inline]
    pub fn until(&self, now: u64) -> u64 {
        now.saturating_add(self.horizon)
    }

    /// Notes that a whole burst has left by `now`. If the next packet, scheduled for `at`, is
    /// already overdue, it and the later ones are delayed.
    #[inline]
    pub fn after_burst(&mut self, at: u64, now: u64) {
        let delay = now.saturating_sub(self.scheduled(at));
        if at == 0 || now <= self.due(at) {
            return;
        }
        if delay > self.longest {
            self.move_by(delay);
        } else {
            self.delay = PacingDelay::new(at, delay);
        }
    }

    fn move_by(&mut self, time: u64) {
        self.start += time;
        self.moved += time;
        self.moves += 1;
        self.delay = PacingDelay::default();
    }

    /// The total of all moves of the schedule in nanoseconds, and their number.
    pub fn moved(&self) -> (u64, u64) {
        (self.moved, self.moves)
    }

    /// Waits until `due`, at most until `limit`: first sleeps, then polls the clock. Returns the
    /// current time.
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

    /// Adapts the margin to a sleep that ended `late` nanoseconds too late.
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
        // A second delay before the first is made up replaces the remainder.
        pacer.after_burst(18 * MS, 21 * MS + 500);
        assert_eq!(pacer.due(18 * MS), 21 * MS + 500);
        // A burst that meets the delayed time changes nothing.
        pacer.after_burst(26 * MS, 28 * MS);
        assert_eq!(pacer.due(26 * MS), 28 * MS + 500);
        // The thread catches up faster after a longer delay.
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
        // A short delay, normal in fast traffic, is made up at little more than the rate.
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
