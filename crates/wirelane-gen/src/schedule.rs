//! Due times, computed from packet numbers with integer arithmetic, so that they do not drift.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::rate::Rate;
use crate::sizes::Lengths;

const NANOSECONDS: u128 = 1_000_000_000;

/// The due times of a stream. Packet k is due after the packets before it at the rate, plus the
/// gaps between bursts.
///
/// Times are nanoseconds after the start, rounded down. They are exact for the stored rate, which
/// has units of 10⁻¹² to 10⁰ per second: a relative error below 10⁻¹⁵. Later times are `u64::MAX`,
/// which means never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The due time of packet 0, without the phase.
    start: u64,
    /// Nanoseconds per unit, as a fraction.
    num: u128,
    den: u128,
    /// The phase, in nanoseconds times `den`.
    shift: u128,
    units: Units,
    burst: Option<Burst>,
}

/// Bursts of packets at the rate, with gaps between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Burst {
    /// The number of packets in a burst; at least 1.
    pub packets: u64,
    /// The gap in nanoseconds, in addition to the normal interval.
    pub gap: u64,
}

/// The units of the rate.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Units {
    /// Packets, or bits of packets with equal lengths.
    Packets,
    /// Bits: the sum before each packet of a cycle, and the sum of a whole cycle.
    Bits { before: Arc<[u64]>, cycle: u64 },
}

impl Schedule {
    /// The schedule of packets with these `lengths`.
    ///
    /// # Errors
    /// The rate is a share, which needs a link speed
    /// ([`Stream::resolve`](crate::stream::Stream::resolve)), or it is not positive.
    pub fn new(rate: Rate, lengths: &Lengths) -> Result<Self> {
        let (rate, bits) = match rate {
            Rate::Max => return Ok(Self::at_once()),
            Rate::Packets(rate) => (rate, None),
            Rate::Bits(rate) => (rate, Some(lengths)),
            Rate::Share(_) => {
                let cause = format!("the rate {rate} needs the speed of the link");
                return Err(Error::new(cause));
            }
        };
        if !(rate.is_finite() && rate > 0.0 && rate < 1e15) {
            return Err(Error::new(format!("{rate} per second is no rate")));
        }
        // The precision of an f64.
        let mut scale = 1_000_000_000_000_u128;
        while scale > 1 && rate * scale as f64 > 9e15 {
            scale /= 10;
        }
        let den = ((rate * scale as f64).round() as u128).max(1);
        let num = NANOSECONDS * scale;
        let (num, units) = match bits {
            None => (num, Units::Packets),
            Some(lengths) => match lengths.fixed() {
                Some(len) => (num * 8 * len as u128, Units::Packets),
                None => (num, Units::bits(lengths)),
            },
        };
        let mut schedule = Self { start: 0, num, den, shift: 0, units, burst: None };
        schedule.reduce();
        Ok(schedule)
    }

    /// A schedule without a rate: all packets are due immediately.
    pub fn at_once() -> Self {
        Self { start: 0, num: 0, den: 1, shift: 0, units: Units::Packets, burst: None }
    }

    /// Delays all packets by `start` nanoseconds.
    #[must_use]
    pub fn starting(mut self, start: u64) -> Self {
        self.start = self.start.saturating_add(start);
        self
    }

    /// Sets the bursts.
    #[must_use]
    pub fn bursts(mut self, burst: Option<Burst>) -> Self {
        self.burst = burst.filter(|burst| burst.packets > 0);
        self
    }

    /// The schedule of member `j` of `m` equal streams with evenly spread packets: delayed by
    /// `j`/`m` of the mean interval.
    #[must_use]
    pub fn staggered(mut self, j: u32, m: u32) -> Self {
        let (j, m) = (u128::from(j), u128::from(m.max(1)));
        match &self.units {
            Units::Packets => {
                let scaled = (self.num.checked_mul(m), self.den.checked_mul(m));
                if let (Some(num), Some(den)) = scaled {
                    self.shift = self.shift.saturating_mul(m).saturating_add(j * self.num);
                    (self.num, self.den) = (num, den);
                }
            }
            Units::Bits { before, cycle } => {
                let mean = self.num.saturating_mul(u128::from(*cycle)) / before.len() as u128;
                self.shift = self.shift.saturating_add(mean.saturating_mul(j) / m);
            }
        }
        self
    }

    /// The merged schedule of `m` equal streams, with `m` times the rate: packet `k` of member `j`
    /// is number `k * m + j`. For constant intervals only.
    #[must_use]
    pub(crate) fn merged(mut self, m: u32) -> Self {
        self.den = self.den.saturating_mul(u128::from(m.max(1)));
        self
    }

    /// Delays all packets by a share of the mean interval, `numerator` in 2³².
    #[must_use]
    pub(crate) fn later(mut self, numerator: u32) -> Self {
        let interval = match &self.units {
            Units::Packets => self.num,
            Units::Bits { before, cycle } => {
                self.num.saturating_mul(u128::from(*cycle)) / before.len() as u128
            }
        };
        self.shift =
            self.shift.saturating_add(interval.saturating_mul(u128::from(numerator)) >> 32);
        self
    }

    /// Whether all intervals are equal.
    pub fn is_even(&self) -> bool {
        self.units == Units::Packets && self.burst.is_none()
    }

    /// Whether all packets are due at once.
    pub fn is_at_once(&self) -> bool {
        self.num == 0 && self.burst.is_none()
    }

    /// The due time of packet `k`, in nanoseconds after the start.
    #[inline]
    pub fn due(&self, k: u64) -> u64 {
        let pause = match self.burst {
            Some(burst) => (k / burst.packets).saturating_mul(burst.gap),
            None => 0,
        };
        let units = match &self.units {
            Units::Packets => u128::from(k),
            Units::Bits { before, cycle } => {
                let len = before.len() as u64;
                u128::from(k / len) * u128::from(*cycle) + u128::from(before[(k % len) as usize])
            }
        };
        let time = units.checked_mul(self.num).and_then(|time| time.checked_add(self.shift));
        let time = time.map_or(u64::MAX, |time| u64::try_from(time / self.den).unwrap_or(u64::MAX));
        time.saturating_add(pause).saturating_add(self.start)
    }

    /// The number of packets due within the first `elapsed` nanoseconds, inclusive.
    pub fn count(&self, elapsed: u64) -> u64 {
        // A binary search for the first packet that is due later, as times never decrease.
        let (mut low, mut high) = (0, u64::MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.due(middle) > elapsed { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// The time of packet `first`, which [`Ticks::advance`] moves by a [`TickStep`] without
    /// divisions. For a schedule that [`is_even`](Self::is_even).
    pub(crate) fn ticks(&self, first: u64) -> Ticks {
        let time = u128::from(first).saturating_mul(self.num).saturating_add(self.shift);
        let at = u64::try_from(time / self.den).unwrap_or(u64::MAX);
        Ticks { at: at.saturating_add(self.start), rest: time % self.den, den: self.den }
    }

    /// A step of `packets` packets, for [`Ticks`].
    pub(crate) fn step(&self, packets: u64) -> TickStep {
        let time = u128::from(packets).saturating_mul(self.num);
        let whole = u64::try_from(time / self.den).unwrap_or(u64::MAX);
        TickStep { whole, rest: time % self.den }
    }

    /// Reduces the fraction to lowest terms, so that products stay small.
    fn reduce(&mut self) {
        let (mut a, mut b) = (self.num, self.den);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        self.num /= a.max(1);
        self.den /= a.max(1);
    }
}

impl Units {
    fn bits(lengths: &Lengths) -> Self {
        let mut cycle = 0;
        let before = lengths.cycle().iter().map(|len| {
            let before = cycle;
            cycle += u64::from(*len) * 8;
            before
        });
        let before = before.collect();
        Self::Bits { before, cycle }
    }
}

/// A time that advances in exact steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    pub(crate) at: u64,
    rest: u128,
    den: u128,
}

/// A step of [`Ticks`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickStep {
    whole: u64,
    rest: u128,
}

impl Ticks {
    #[inline]
    pub(crate) fn advance(&mut self, step: &TickStep) {
        self.at = self.at.saturating_add(step.whole);
        self.rest += step.rest;
        if self.rest >= self.den {
            self.rest -= self.den;
            self.at = self.at.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sizes::Sizes;

    fn schedule(rate: &str, sizes: &str) -> Schedule {
        let lengths = sizes.parse::<Sizes>().unwrap().lengths(0).unwrap();
        Schedule::new(rate.parse().unwrap(), &lengths).unwrap()
    }

    #[test]
    fn exact_over_years() {
        let third = schedule("3pps", "64");
        assert_eq!(
            [0, 1, 2, 3].map(|k| third.due(k)),
            [0, 333_333_333, 666_666_666, 1_000_000_000]
        );
        let year = 365 * 86_400;
        assert_eq!(schedule("10Mpps", "64").due(year * 10_000_000), year * 1_000_000_000);
        assert_eq!(schedule("0.5pps", "64").due(year / 2), year * 1_000_000_000);
        // 100 Gbit/s; 12 packets have 4294 bytes.
        let packets = year * 100_000_000_000 / (8 * 4294) * 12;
        let due = schedule("100Gbit", "imix").due(packets);
        assert!(year * 1_000_000_000 - due < 1000, "{due}");
    }

    #[test]
    fn bits_count_the_bytes_of_the_packet() {
        // 64-byte packets at 512 bit/s: one per second.
        assert_eq!(schedule("512bit", "64").due(5), 5_000_000_000);
        let imix = schedule("8kbit", "imix");
        assert_eq!(imix.due(12), (7 * 60 + 4 * 590 + 1514) * 1_000_000);
    }

    #[test]
    fn bursts_have_gaps_between_them() {
        let burst = Some(Burst { packets: 3, gap: 1_000_000 });
        let paced = schedule("1Mpps", "64").bursts(burst);
        let times: Vec<_> = (0..7).map(|k| paced.due(k)).collect();
        assert_eq!(times, [0, 1000, 2000, 1_003_000, 1_004_000, 1_005_000, 2_006_000]);
        let at_once = Schedule::at_once().bursts(burst).starting(5);
        assert_eq!([0, 2, 3, 6].map(|k| at_once.due(k)), [5, 5, 1_000_005, 2_000_005]);
        assert_eq!(at_once.count(1_000_005), 6);
    }

    #[test]
    fn everything_at_once_is_due_at_once() {
        let schedule = schedule("max", "64");
        assert_eq!(schedule.due(u64::MAX), 0);
        assert!(schedule.is_at_once());
    }

    #[test]
    fn no_rate_is_an_error() {
        let lengths = Sizes::fixed(64).lengths(60).unwrap();
        for rate in [Rate::Share(0.5), Rate::Packets(0.0), Rate::Bits(f64::NAN), Rate::Bits(1e300)]
        {
            assert!(Schedule::new(rate, &lengths).is_err(), "{rate}");
        }
    }

    /// Schedules of all kinds.
    fn any() -> impl Strategy<Value = Schedule> {
        let rate = prop_oneof![
            (0.001..1e9f64).prop_map(Rate::Packets),
            (1u64..1_000_000_000).prop_map(|rate| Rate::Packets(rate as f64)),
            (1.0..1e12f64).prop_map(Rate::Bits),
        ];
        let sizes = proptest::sample::select(vec!["64", "imix", "60-1514@random", "60,1514"]);
        let burst = proptest::option::of((1..100u64, 0..1_000_000_000u64));
        (rate, sizes, burst, 0..5u32).prop_map(|(rate, sizes, burst, j)| {
            let lengths = sizes.parse::<Sizes>().unwrap().lengths(60).unwrap();
            let burst = burst.map(|(packets, gap)| Burst { packets, gap });
            Schedule::new(rate, &lengths).unwrap().bursts(burst).starting(7).staggered(j, 5)
        })
    }

    proptest! {
        #[test]
        fn times_never_fall_and_count_inverts_them(schedule in any(), k in 0u64..1 << 40) {
            let due = schedule.due(k);
            prop_assert!(due <= schedule.due(k + 1));
            if due < u64::MAX {
                prop_assert!(schedule.count(due) > k);
                prop_assert!(schedule.count(due - 1) <= k);
            }
        }

        #[test]
        fn steps_are_exact(rate in 0.1..1e9f64, first in 0u64..1 << 40, by in 1u64..1000) {
            let schedule = Schedule::new(Rate::Packets(rate), &Sizes::fixed(64).lengths(60).unwrap());
            let schedule = schedule.unwrap().staggered(1, 3);
            let (mut ticks, step) = (schedule.ticks(first), schedule.step(by));
            for i in 0..100 {
                prop_assert_eq!(ticks.at, schedule.due(first + i * by));
                ticks.advance(&step);
            }
        }

        #[test]
        fn the_rate_is_kept(rate in 1.0..1e9f64, seconds in 1u64..100_000_000) {
            let lengths = Sizes::fixed(64).lengths(60).unwrap();
            let schedule = Schedule::new(Rate::Packets(rate), &lengths).unwrap();
            let packets = schedule.count(seconds * 1_000_000_000 - 1) as f64;
            prop_assert!((packets - rate * seconds as f64).abs() <= 1.0 + packets * 1e-14);
        }
    }
}
