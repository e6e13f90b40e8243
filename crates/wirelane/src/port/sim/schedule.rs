//! When packets are due: integer arithmetic on the packet's number, so that the pace does not
//! drift.

use super::config::{Config, Rate};

const NANOSECONDS: u128 = 1_000_000_000;

/// The pace of a stream. Packet k is due when all earlier packets have been sent at the rate.
#[derive(Clone, Debug)]
pub(super) struct SimSchedule {
    /// Units (packets or bits) per second.
    rate: u64,
    /// Units before each packet of a cycle, and in a whole cycle.
    before: Vec<u64>,
    cycle: u64,
}

impl SimSchedule {
    /// The pace of `config`; `None` for the maximum rate.
    pub(super) fn new(config: &Config) -> Option<Self> {
        let (rate, units): (u64, Vec<u64>) = match config.rate {
            Rate::Max => return None,
            Rate::Packets(rate) => (rate, vec![1]),
            Rate::Bits(rate) => (rate, config.sizes.iter().map(|n| u64::from(*n) * 8).collect()),
        };
        let mut cycle = 0;
        let before = units
            .iter()
            .map(|units| {
                let before = cycle;
                cycle += units;
                before
            })
            .collect();
        Some(Self { rate, before, cycle })
    }

    /// Nanoseconds after the start at which packet `k` is due.
    #[inline]
    pub(super) fn due(&self, k: u64) -> u64 {
        let len = self.before.len() as u64;
        let (cycles, at) = if len == 1 { (k, 0) } else { (k / len, (k % len) as usize) };
        let units = u128::from(cycles) * u128::from(self.cycle) + u128::from(self.before[at]);
        u64::try_from(units * NANOSECONDS / u128::from(self.rate)).unwrap_or(u64::MAX)
    }

    /// How many packets are due within the first `elapsed` nanoseconds, inclusive.
    pub(super) fn count(&self, elapsed: u64) -> u64 {
        // floor(units * 10^9 / rate) <= elapsed, solved for the units before the packet.
        let most = ((u128::from(elapsed) + 1) * u128::from(self.rate) - 1) / NANOSECONDS;
        let (cycles, rest) = (most / u128::from(self.cycle), most % u128::from(self.cycle));
        let within = self.before.partition_point(|units| u128::from(*units) <= rest);
        let packets = cycles * self.before.len() as u128 + within as u128;
        u64::try_from(packets).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule(text: &str) -> SimSchedule {
        SimSchedule::new(&Config::new(&text.parse().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn exact_over_years() {
        let third = schedule("sim:1?rate=3");
        assert_eq!(
            [0, 1, 2, 3].map(|k| third.due(k)),
            [0, 333_333_333, 666_666_666, 1_000_000_000]
        );
        // A year of 10 million packets per second ends on the nanosecond.
        let year = 365 * 86_400;
        let fast = schedule("sim:1?rate=10Mpps");
        assert_eq!(fast.due(year * 10_000_000), year * 1_000_000_000);
    }

    #[test]
    fn bits_count_the_bytes_of_the_packet() {
        // 64-byte packets at 512 bit/s: one per second.
        assert_eq!(schedule("sim:1?rate=512bit").due(5), 5_000_000_000);
        let imix = schedule("sim:1?rate=8kbit&size=imix");
        assert_eq!(imix.due(12), (7 * 64 + 4 * 594 + 1518) * 1_000_000);
    }

    proptest! {
        #[test]
        fn count_inverts_due(rate in 1u64..=1_000_000_000, bits: bool, imix: bool, k in 0u64..1 << 40) {
            let unit = if bits { "bit" } else { "pps" };
            let size = if imix { "imix" } else { "64" };
            let schedule = schedule(&format!("sim:1?rate={rate}{unit}&size={size}"));
            let due = schedule.due(k);
            if due < u64::MAX {
                prop_assert!(schedule.count(due) > k);
                prop_assert!(due == 0 || schedule.count(due - 1) <= k);
            }
        }
    }
}
