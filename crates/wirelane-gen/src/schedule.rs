//! When packets are due: integer arithmetic on the packet's number, so that nothing drifts.

use std::sync::Arc;

use crate::rate::Rate;
use crate::sizes::Lengths;

const NANOSECONDS: u128 = 1_000_000_000;

/// The pace of a stream. Packet k is due when everything before it has been sent at the rate, plus
/// the gaps between bursts.
///
/// Times are nanoseconds after the start, rounded down. They are exact for the rate as it is kept: in
/// units of 10⁻¹² to 10⁰ per second, a relative error below 10⁻¹⁵. Times beyond `u64::MAX` are
/// that: never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// When packet 0 is due, besides the phase.
    start: u64,
    /// Nanoseconds per unit, a fraction.
    num: u128,
    den: u128,
    /// The phase, in nanoseconds times `den`.
    shift: u128,
    units: Units,
    burst: Option<Burst>,
}

/// Packets that are sent at the rate, then a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Burst {
    /// How many; at least 1.
    pub packets: u64,
    /// Nanoseconds between the time when the next packet would be due, and when it is.
    pub gap: u64,
}

/// What the rate counts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Units {
    /// Packets, or the same number of bits in each packet.
    Packets,
    /// Bits before each packet of a cycle, and of a whole cycle.
    Bits { before: Arc<[u64]>, cycle: u64 },
}

impl Schedule {
    /// The pace of packets with these `lengths`.
    ///
    /// # Errors
    /// The rate is a share, which only means something with a link
    /// ([`Stream::resolve`](crate::stream::Stream::resolve)), or not positive.
    pub fn new(rate: Rate, lengths: &Lengths) -> Result<Self, String> {
        let (rate, bits) = match rate {
            Rate::Max => return Ok(Self::at_once()),
            Rate::Packets(rate) => (rate, None),
            Rate::Bits(rate) => (rate, Some(lengths)),
            Rate::Share(_) => return Err(format!("the rate {rate} needs the speed of the link")),
        };
        if !(rate.is_finite() && rate > 0.0 && rate < 1e15) {
            return Err(format!("{rate} per second is no rate"));
        }
        // As many digits as an f64 has.
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

    /// Everything is due at once: as fast as possible.
    pub fn at_once() -> Self {
        Self { start: 0, num: 0, den: 1, shift: 0, units: Units::Packets, burst: None }
    }

    /// Everything `start` nanoseconds later.
    #[must_use]
    pub fn starting(mut self, start: u64) -> Self {
        self.start = self.start.saturating_add(start);
        self
    }

    /// In bursts.
    #[must_use]
    pub fn bursts(mut self, burst: Option<Burst>) -> Self {
        self.burst = burst.filter(|burst| burst.packets > 0);
        self
    }

    /// The schedule of member `j` of `m` equal streams whose packets are to be evenly spread: later
    /// by `j`/`m` of the mean time between two packets.
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

    /// The schedule of all packets of `m` equal streams taken together, which have `m` times the
    /// rate: packet `k` of member `j` is number `k * m + j`. For constant intervals only.
    #[must_use]
    pub(crate) fn merged(mut self, m: u32) -> Self {
        self.den = self.den.saturating_mul(u128::from(m.max(1)));
        self
    }

    /// Later by a share of the time between two packets, `numerator` in 2³².
    #[must_use]
    pub(crate) fn later(mut self, numerator: u32) -> Self {
        let interval = match &self.units {
            Units::Packets => self.num,
            Units::Bits { before, cycle } => {
                self.num.saturating_mul(u128::from(*cycle)) / before.len() as u128
            }
        };
        self.shift = self.shift.saturating_add((interval >> 32) * u128::from(numerator));
        self
    }

    /// Whether all packets have the same time between them.
    pub fn is_even(&self) -> bool {
        self.units == Units::Packets && self.burst.is_none()
    }

    /// Whether everything is due at once.
    pub fn is_at_once(&self) -> bool {
        self.num == 0 && self.burst.is_none()
    }

    /// Nanoseconds after the start at which packet `k` is due.
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

    /// How many packets are due within the first `elapsed` nanoseconds, the last one included.
    pub fn count(&self, elapsed: u64) -> u64 {
        // Times never fall: the first packet that is due later, or never.
        let (mut low, mut high) = (0, u64::MAX);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.due(middle) > elapsed { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// The times of packets `first`, `first + 1` … without divisions, for a schedule that
    /// [`is_even`](Self::is_even).
    pub(crate) fn ticks(&self, first: u64) -> Ticks {
        let time = u128::from(first).saturating_mul(self.num).saturating_add(self.shift);
        let at = u64::try_from(time / self.den).unwrap_or(u64::MAX);
        Ticks { at: at.saturating_add(self.start), rest: time % self.den, den: self.den }
    }

    /// `packets` packets further, for [`Ticks`].
    pub(crate) fn step(&self, packets: u64) -> Step {
        let time = u128::from(packets).saturating_mul(self.num);
        let whole = u64::try_from(time / self.den).unwrap_or(u64::MAX);
        Step { whole, rest: time % self.den }
    }

    /// Lowest terms, so that products stay small.
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

/// A time that goes on in exact steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    pub(crate) at: u64,
    rest: u128,
    den: u128,
}

/// How far it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    whole: u64,
    rest: u128,
}

impl Ticks {
    #[inline]
    pub(crate) fn advance(&mut self, step: &Step) {
        self.at = self.at.saturating_add(step.whole);
        self.rest += step.rest;
        if self.rest >= self.den {
            self.rest -= self.den;
            self.at = self.at.saturating_add(1);
        }
    }
}
