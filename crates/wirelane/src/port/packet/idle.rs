//! The idle policy of a ring: how long to sleep while packets arrive densely.
//!
//! A wake-up per block costs more than processing it: about 70 µs of CPU time, measured on a
//! virtual machine with Linux 6.18. With blocks of 512 KiB and packets of 1500 bytes that is 230 ns
//! per packet, and 40 ns with naps. So while full blocks arrive, a receiver naps until several have
//! gathered. It waits for the kernel if blocks time out, or arrive so slowly that a nap would end
//! before the second one.

use std::time::Duration;

/// Decides on naps. See the [module documentation](self).
pub(super) struct IdlePolicy {
    /// Nanoseconds, adapted so that up to a quarter of the ring gathers.
    nap: u64,
    /// Monotonic time at which the last nap ends.
    until: u64,
    /// Monotonic time of the last decision.
    decided: u64,
    /// Blocks opened since the last decision.
    blocks: u32,
    /// The last block was handed over because it was full.
    dense: bool,
}

impl IdlePolicy {
    /// A shorter nap is not worth its wake-up.
    const SHORTEST: u64 = 100_000;

    pub(super) fn new() -> Self {
        Self { nap: Self::SHORTEST, until: 0, decided: 0, blocks: 0, dense: false }
    }

    /// Counts a block that was opened; `full` if it was handed over before its time-out.
    #[inline]
    pub(super) fn opened(&mut self, full: bool) {
        self.blocks += 1;
        self.dense = full;
    }

    /// The nap to take at time `now`, if any: a new nap after new blocks, otherwise the rest of the
    /// last one.
    pub(super) fn next(&mut self, now: u64, longest: u64, ring: u32) -> Option<Duration> {
        let blocks = std::mem::take(&mut self.blocks);
        if blocks > 0 {
            if blocks > ring / 4 {
                self.nap /= 2;
            } else if blocks <= ring / 8 {
                self.nap = self.nap.saturating_mul(2);
            }
            self.nap = self.nap.max(Self::SHORTEST / 2).min(longest);
            let since = now.saturating_sub(std::mem::replace(&mut self.decided, now));
            let gathers = self.nap.saturating_mul(blocks.into()) >= since.saturating_mul(2);
            let worth = self.dense && gathers && self.nap >= Self::SHORTEST;
            self.until = if worth { now.saturating_add(self.nap) } else { 0 };
        }
        let left = self.until.checked_sub(now).filter(|left| *left > 0);
        left.map(Duration::from_nanos)
    }
}

/// How long a receiver may nap before a ring of `bytes` could overflow: half the time to fill it at
/// `speed` bits per second, or at the rate of virtual devices if that is higher.
pub(super) fn longest_nap(bytes: u64, speed: Option<u64>, retire: u64) -> u64 {
    const VIRTUAL: u64 = 20_000_000_000;
    let bytes_per_second = speed.unwrap_or(0).max(VIRTUAL) / 8;
    let half = bytes.saturating_mul(1_000_000_000) / 2 / bytes_per_second;
    half.min(retire / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_fit_the_ring() {
        let millis = |bytes, speed| longest_nap(bytes, speed, 20_000_000) as f64 / 1e6;
        assert_eq!(millis(28 << 20, None), 5.872025);
        assert_eq!(millis(28 << 20, Some(1_000_000_000)), 5.872025);
        assert_eq!(millis(28 << 20, Some(100_000_000_000)), 1.174405);
        assert_eq!(millis(1 << 30, None), 10.0);
    }

    #[test]
    fn naps_gather_two_blocks_or_are_not_taken() {
        let mut idle = IdlePolicy::new();
        let mut after = |interval: u64, blocks| {
            idle.opened(true);
            idle.blocks = blocks;
            let now = idle.decided + interval;
            idle.next(now, 4_000_000, 64)
        };
        for _ in 0..10 {
            assert_eq!(after(12_000_000, 1), None, "the kernel's wake-ups are the fewest");
        }
        assert_eq!(after(2_000_000, 1), Some(Duration::from_millis(4)));
        assert_eq!(after(4_100_000, 2), None);
        assert_eq!(after(4_100_000, 3), Some(Duration::from_millis(4)));
    }

    #[test]
    fn naps_follow_the_rate() {
        let mut idle = IdlePolicy::new();
        let mut now = 0;
        let mut round = |blocks, dense| {
            now += 50_000;
            (idle.blocks, idle.dense) = (blocks, dense);
            let nap = idle.next(now, 5_000_000, 64).map(|nap| nap.as_micros());
            // Asked again too early, what is left; too late, nothing.
            if let Some(nap) = nap {
                let left = idle.next(now + 50_000, 5_000_000, 64).map(|nap| nap.as_micros());
                assert_eq!(left, Some(nap - 50));
                assert_eq!(idle.next(now + 5_000_000, 5_000_000, 64), None);
            }
            nap
        };
        assert_eq!(round(0, false), None);
        assert_eq!(round(12, false), None, "sparse: wait for the kernel");
        let calm: Vec<_> = (0..7).filter_map(|_| round(1, true)).collect();
        assert_eq!(calm, [200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(round(12, true), Some(5000));
        assert_eq!(round(40, true), Some(2500));
        let flood: Vec<_> = (0..6).map(|_| round(60, true)).collect();
        assert_eq!(flood, [Some(1250), Some(625), Some(312), Some(156), None, None]);
        assert_eq!(round(1, true), Some(100));
    }
}
