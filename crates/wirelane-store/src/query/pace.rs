//! Limits the rate of reading stores.

/// A rate in bytes per second. Times are monotonic, in nanoseconds.
#[derive(Debug)]
pub(super) struct ReadPace {
    rate: Option<u64>,
    /// The time at which earlier reads are paid for.
    paid: u64,
}

/// Unused time is credited for this long, so that later reads may be faster.
const CREDIT: u64 = 100_000_000;

impl ReadPace {
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self { rate: rate.map(|rate| rate.max(1)), paid: 0 }
    }

    /// The time at which `bytes` may be read, at or after `now`.
    pub(super) fn due(&mut self, bytes: u64, now: u64) -> u64 {
        let Some(rate) = self.rate else { return now };
        let due = self.paid.max(now.saturating_sub(CREDIT));
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        self.paid = due.saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut pace = ReadPace::new(None);
        assert_eq!([pace.due(u64::MAX, 5), pace.due(u64::MAX, 5)], [5, 5]);
    }

    #[test]
    fn bytes_come_at_the_rate() {
        let mut pace = ReadPace::new(Some(1000));
        let start = 50 * SECOND;
        let mut now = start;
        for _ in 0..100 {
            now = now.max(pace.due(500, now));
        }
        // The first reads used the credit; the time of the last one is still to come.
        assert_eq!(now - start, 99 * SECOND / 2 - CREDIT);
        // A pause gives no more credit than that.
        now += 100 * SECOND;
        assert_eq!(pace.due(500, now), now - CREDIT);
        assert_eq!(pace.due(500, now), now - CREDIT + SECOND / 2);
        assert_eq!(ReadPace::new(Some(0)).due(1, 7), 0);
    }
}
