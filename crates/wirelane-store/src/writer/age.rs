//! The age of packets, by a clock that may jump.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};
use wirelane_os::clock;

/// How long a clock must stay ahead before it is believed: a clock that is wrong for a moment must
/// not make everything old.
const BELIEVED: u64 = 600_000_000_000;
/// Smaller differences are not jumps.
const TOLERANCE: u64 = 60_000_000_000;

/// Times of both clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// Since the epoch.
    pub(crate) real: u64,
    /// Since the machine was started. It does not jump, and counts suspended time.
    pub(crate) boot: u64,
}

impl Now {
    pub(crate) fn read() -> Self {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(tv_sec).unwrap_or(0).saturating_mul(1_000_000_000);
        let boot = seconds.saturating_add(u64::try_from(tv_nsec).unwrap_or(0));
        Self { real: clock::realtime_ns(), boot }
    }
}

/// Computes the age of segments of this recording and of earlier ones.
///
/// Ages of segments of this process use the boot time. Ages of earlier segments depend on the
/// real-time clock: they follow a jump back at once, and a jump ahead only after some minutes.
#[derive(Debug)]
pub(crate) struct AgeClock {
    /// The believed real time at which the boot time was zero.
    offset: u64,
    /// The boot time since which the clock is ahead of that.
    ahead_since: Option<u64>,
}

/// The time of a segment's last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastPacketTime {
    /// In this process, at this boot time.
    Boot(u64),
    /// Earlier, at this time since the epoch.
    Real(u64),
}

impl AgeClock {
    pub(crate) fn new(now: Now) -> Self {
        Self { offset: now.real.saturating_sub(now.boot), ahead_since: None }
    }

    /// Call it every now and then.
    pub(crate) fn tick(&mut self, now: Now) {
        let offset = now.real.saturating_sub(now.boot);
        let is_ahead = offset > self.offset.saturating_add(TOLERANCE);
        let since = *self.ahead_since.get_or_insert(now.boot);
        if !is_ahead || now.boot.saturating_sub(since) >= BELIEVED {
            (self.offset, self.ahead_since) = (offset, None);
        }
    }

    /// The age of a segment.
    pub(crate) fn age(&self, written: LastPacketTime, now: Now) -> Duration {
        let age = match written {
            LastPacketTime::Boot(at) => now.boot.saturating_sub(at),
            LastPacketTime::Real(at) => self.offset.saturating_add(now.boot).saturating_sub(at),
        };
        Duration::from_nanos(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    fn at(real: u64, boot: u64) -> Now {
        Now { real: real * MINUTE, boot: boot * MINUTE }
    }

    fn minutes(age: Duration) -> u64 {
        age.as_secs() / 60
    }

    #[test]
    fn a_jump_ahead_makes_nothing_old_for_a_while() {
        let mut clock = AgeClock::new(at(1000, 10));
        let old = LastPacketTime::Real(990 * MINUTE);
        clock.tick(at(1005, 15));
        assert_eq!(minutes(clock.age(old, at(1005, 15))), 15);
        clock.tick(at(500_000, 16));
        assert_eq!(minutes(clock.age(old, at(500_000, 16))), 16);
        // It was wrong.
        clock.tick(at(1008, 18));
        clock.tick(at(500_000, 20));
        clock.tick(at(500_009, 29));
        assert_eq!(minutes(clock.age(old, at(500_009, 29))), 29);
        // It stays.
        clock.tick(at(500_010, 30));
        assert_eq!(minutes(clock.age(old, at(500_010, 30))), 500_010 - 990);
        assert_eq!(minutes(clock.age(LastPacketTime::Boot(10 * MINUTE), at(500_010, 30))), 20);
    }

    #[test]
    fn a_clock_that_goes_back_makes_nothing_old() {
        let mut clock = AgeClock::new(at(1000, 10));
        clock.tick(at(400, 11));
        assert_eq!(minutes(clock.age(LastPacketTime::Real(390 * MINUTE), at(400, 11))), 10);
        assert_eq!(minutes(clock.age(LastPacketTime::Real(990 * MINUTE), at(400, 11))), 0);
        clock.tick(at(1001, 13));
        assert_eq!(minutes(clock.age(LastPacketTime::Real(390 * MINUTE), at(1001, 13))), 12);
    }

    #[test]
    fn the_clocks_run() {
        let now = Now::read();
        assert!(now.real > now.boot && now.boot > 0);
    }
}
