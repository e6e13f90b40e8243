//! Latencies of packets.

use hdrhistogram::Histogram;
use wirelane_gen::signature::TIME_SPAN;

/// A histogram of latencies, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    times: Histogram<u64>,
    sum: u128,
    early: u64,
}

impl Latency {
    /// An empty histogram with `digits` significant digits, 1 to 5. Its memory grows with the
    /// longest time.
    pub(super) fn new(digits: u8) -> Self {
        // The histogram grows automatically, so only the digits could be invalid.
        let empty = Histogram::new(digits.clamp(1, 5));
        let times = empty.unwrap_or_else(|_| unreachable!("the digits are clamped"));
        Self { times, sum: 0, early: 0 }
    }

    /// Adds a time; `None` for a packet that arrived before its stamped departure.
    pub(super) fn add(&mut self, time: Option<u64>) {
        match time {
            Some(time) => {
                self.sum += u128::from(time);
                // The histogram grows automatically, at most to the span of times in signatures.
                let _ = self.times.record(time.min(TIME_SPAN));
            }
            None => self.early += 1,
        }
    }

    /// Adds all times of `other`.
    pub fn merge(&mut self, other: &Self) {
        // The histogram grows automatically.
        let _ = self.times.add(&other.times);
        self.sum += other.sum;
        self.early += other.early;
    }

    /// Packets with a latency.
    pub fn packets(&self) -> u64 {
        self.times.len()
    }

    /// Packets that arrived before their stamped departure: a sender that stamps scheduled times
    /// may send early. The histogram does not include them.
    pub fn early(&self) -> u64 {
        self.early
    }

    /// The shortest latency; 0 without packets.
    pub fn min(&self) -> u64 {
        if self.times.is_empty() { 0 } else { self.times.min() }
    }

    /// The longest latency.
    pub fn max(&self) -> u64 {
        self.times.max()
    }

    /// The mean latency; 0 without packets.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / (self.times.len().max(1)) as f64
    }

    /// The latency that this share of the packets does not exceed: 0.5 is the median.
    pub fn quantile(&self, share: f64) -> u64 {
        self.times.value_at_quantile(share)
    }

    /// The packet delay variation (RFC 5481, section 4.2): the 99 % percentile minus the shortest
    /// latency.
    pub fn variation(&self) -> u64 {
        self.quantile(0.99).saturating_sub(self.min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_the_digits() {
        let mut one = Latency::new(3);
        assert_eq!((one.min(), one.max(), one.quantile(0.5), one.packets()), (0, 0, 0, 0));
        let mut other = Latency::new(2);
        for time in 1..=1000u64 {
            if time % 2 == 0 { &mut one } else { &mut other }.add(Some(time * 1000));
        }
        other.add(None);
        one.merge(&other);
        assert_eq!((one.packets(), one.early()), (1000, 1));
        let near = |value: u64, expected: f64| (value as f64 / expected - 1.0).abs() < 0.02;
        assert!(near(one.quantile(0.5), 500e3) && near(one.quantile(0.999), 999e3));
        assert!(near(one.max(), 1e6) && near(one.variation(), 989e3), "{}", one.variation());
        assert!((one.mean() - 500_500.0).abs() < 1.0);
    }
}
