//! A limit on how fast stores are read.

/// Bytes per second, over the time since the first of them. Time is monotonic, in nanoseconds.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Option<u64>,
    /// When what was read so far is paid for.
    paid: u64,
}

/// Time that was not used is kept for this long, so that what follows may be read faster.
const CREDIT: u64 = 100_000_000;

impl Pace {
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self { rate: rate.map(|rate| rate.max(1)), paid: 0 }
    }

    /// When `bytes` may be read that are to be read at `now`: at once if that is not later.
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
        let mut pace = Pace::new(None);
        assert_eq!([pace.due(u64::MAX, 5), pace.due(u64::MAX, 5)], [5, 5]);
    }

    #[test]
    fn bytes_come_at_the_rate() {
        let mut pace = Pace::new(Some(1000));
        let start = 50 * SECOND;
        let mut now = start;
        for _ in 0..100 {
            now = now.max(pace.due(500, now));
        }
        // What came first had credit; of the last, the time is still to come.
        assert_eq!(now - start, 99 * SECOND / 2 - CREDIT);
        // A pause is made up for by no more than that.
        now += 100 * SECOND;
        assert_eq!(pace.due(500, now), now - CREDIT);
        assert_eq!(pace.due(500, now), now - CREDIT + SECOND / 2);
        assert_eq!(Pace::new(Some(0)).due(1, 7), 0);
    }
}
