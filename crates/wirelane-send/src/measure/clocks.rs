//! Conversion between the monotonic clock, which stamps packets, and the wall clock of ports.

use wirelane::internal::clock;

/// A comparison of the clocks within this time is precise, in nanoseconds. Preemption makes it
/// longer.
const CLOSE: u64 = 2_000;
/// The interval between comparisons, in nanoseconds: the wall clock may have been set.
const AGE: u64 = 100_000_000;
const ATTEMPTS: u32 = 20;

/// The offset from the monotonic clock to the clock of packet timestamps.
pub(super) struct Clocks {
    ahead: u64,
    compared: u64,
}

impl Clocks {
    pub(super) fn compare() -> Self {
        let mut best = (u64::MAX, 0, 0);
        for _ in 0..ATTEMPTS {
            let look = look();
            best = if look.0 < best.0 { look } else { best };
            if best.0 <= CLOSE {
                break;
            }
        }
        let (_, ahead, compared) = best;
        Self { ahead, compared }
    }

    /// Compares the clocks again if that is due. Ignores an imprecise comparison.
    pub(super) fn keep_up(&mut self) {
        if clock::monotonic_ns().wrapping_sub(self.compared) > AGE {
            let (apart, ahead, compared) = look();
            if apart <= CLOSE {
                *self = Self { ahead, compared };
            }
        }
    }

    /// The monotonic time of a packet's timestamp, or the current time if the packet has none.
    pub(super) fn monotonic(&self, timestamp: u64) -> u64 {
        if timestamp == 0 { clock::monotonic_ns() } else { timestamp.wrapping_sub(self.ahead) }
    }
}

/// Compares the clocks. Returns the duration of the comparison, the offset, and the time.
fn look() -> (u64, u64, u64) {
    let before = clock::monotonic_ns();
    let realtime = clock::realtime_ns();
    let after = clock::monotonic_ns();
    let apart = after.saturating_sub(before);
    (apart, realtime.wrapping_sub(before + apart / 2), after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_one_clock_become_times_of_the_other() {
        let clocks = Clocks::compare();
        let before = clock::monotonic_ns();
        let now = clocks.monotonic(clock::realtime_ns());
        let after = clock::monotonic_ns();
        // A tolerance of a second is enough for a busy machine; the clocks differ by years.
        assert!(now + 1_000_000_000 > before && now < after + 1_000_000_000, "{before} {now}");
        assert!(clocks.monotonic(0) >= after);
    }
}
