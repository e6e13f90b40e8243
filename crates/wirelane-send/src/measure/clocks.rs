//! Both clocks: packets are stamped by the one, ports tell the time by the other.

use wirelane::clock;

/// Closer looks at both clocks are not to be had while others use the CPU.
const CLOSE: u64 = 2_000;
/// After this time the clock of the day may have been set.
const AGE: u64 = 100_000_000;
const ATTEMPTS: u32 = 20;

/// How far the clock of packet time stamps is ahead of the monotonic one.
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

    /// Compares again if that is due, and if nothing comes between.
    pub(super) fn keep_up(&mut self) {
        if clock::monotonic_ns().wrapping_sub(self.compared) > AGE {
            let (apart, ahead, compared) = look();
            if apart <= CLOSE {
                *self = Self { ahead, compared };
            }
        }
    }

    /// The monotonic time at which a port saw a packet; now where the port keeps no time.
    pub(super) fn monotonic(&self, timestamp: u64) -> u64 {
        if timestamp == 0 { clock::monotonic_ns() } else { timestamp.wrapping_sub(self.ahead) }
    }
}

/// How long it took, how far the one is ahead, and when.
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
        // A second is plenty for a busy machine; the clocks are years apart.
        assert!(now + 1_000_000_000 > before && now < after + 1_000_000_000, "{before} {now}");
        assert!(clocks.monotonic(0) >= after);
    }
}
