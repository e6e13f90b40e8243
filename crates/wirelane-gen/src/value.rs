//! Computes the values of a field.

use crate::values::Values;

/// The value of packet number `k` in a field of `bits` bits.
pub fn at(values: &Values, bits: u8, k: u64) -> u128 {
    match ValueSource::new(values, bits).value(position(values, k)) {
        PackedValue::Narrow(value) => u128::from(value),
        PackedValue::Wide(value) => value,
    }
}

/// The number of packets after which the values repeat; `None` for random values.
pub(crate) fn period(values: &Values) -> Option<u64> {
    match values {
        Values::Constant(_) => Some(1),
        Values::List(list) => Some((list.len() as u64).max(1)),
        Values::Counter { count, .. } => Some((*count).max(1)),
        Values::Random { .. } => None,
    }
}

/// The position of packet `k` in the period of the values.
pub(crate) fn position(values: &Values, k: u64) -> u64 {
    period(values).map_or(k, |period| k % period)
}

/// A position that advances in steps, without divisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SteppedPosition {
    pub(crate) position: u64,
    /// The step, reduced to less than the period.
    step: u64,
    /// 0 for none.
    period: u64,
}

impl SteppedPosition {
    pub(crate) fn new(values: &Values, first: u64, stride: u64) -> Self {
        match period(values) {
            Some(period) => Self { position: first % period, step: stride % period, period },
            None => Self { position: first, step: stride, period: 0 },
        }
    }

    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        // Sums modulo 2^64: a wrapped sum also exceeds the period.
        let (next, wrapped) = self.position.overflowing_add(self.step);
        let over = self.period != 0 && (wrapped || next >= self.period);
        self.position = if over { next.wrapping_sub(self.period) } else { next };
    }
}

/// A value in the smallest type for its field.
pub(crate) enum PackedValue {
    /// Up to 64 bits.
    Narrow(u64),
    /// More than 64 bits.
    Wide(u128),
}

/// Computes values from positions.
#[derive(Clone, Debug)]
pub(crate) enum ValueSource {
    Counter {
        start: u64,
        step: u64,
        mask: u64,
    },
    List(Box<[u64]>),
    /// `span` is the number of different values, 0 for all 2^64.
    Random {
        low: u64,
        span: u64,
        seed: u64,
        mask: u64,
    },
    Wide {
        values: Values,
        mask: u128,
    },
}

impl ValueSource {
    pub(crate) fn new(values: &Values, bits: u8) -> Self {
        if bits > 64 {
            let mask = if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
            return Self::Wide { values: values.clone(), mask };
        }
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        match values {
            Values::Constant(value) => Self::Counter { start: *value as u64 & mask, step: 0, mask },
            Values::List(list) => {
                Self::List(list.iter().map(|value| *value as u64 & mask).collect())
            }
            Values::Counter { start, step, .. } => {
                Self::Counter { start: *start as u64, step: *step as u64, mask }
            }
            Values::Random { low, high, seed } => {
                let (low, high) = (*low as u64, *high as u64);
                let span = high.wrapping_sub(low).wrapping_add(1);
                Self::Random { low, span, seed: *seed, mask }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn value(&self, position: u64) -> PackedValue {
        PackedValue::Narrow(match self {
            Self::Counter { start, step, mask } => {
                start.wrapping_add(step.wrapping_mul(position)) & mask
            }
            Self::List(list) => list.get(position as usize).copied().unwrap_or(0),
            Self::Random { low, span, seed, mask } => {
                let random = random(*seed, position);
                let within = match span {
                    0 => random,
                    span => ((u128::from(random) * u128::from(*span)) >> 64) as u64,
                };
                low.wrapping_add(within) & mask
            }
            Self::Wide { values, mask } => return PackedValue::Wide(wide(values, position) & mask),
        })
    }
}

/// Computes the value of a field of more than 64 bits.
fn wide(values: &Values, position: u64) -> u128 {
    match values {
        Values::Constant(value) => *value,
        Values::List(list) => list.get(position as usize).copied().unwrap_or(0),
        Values::Counter { start, step, .. } => {
            start.wrapping_add(step.wrapping_mul(u128::from(position)))
        }
        Values::Random { low, high, seed } => {
            let both = |high: u64| u128::from(high) << 64 | u128::from(random(!*seed, position));
            let random = both(random(*seed, position));
            match high.wrapping_sub(*low).wrapping_add(1) {
                0 => random,
                span if span.is_power_of_two() => low.wrapping_add(random & (span - 1)),
                // For spans far below 2^128, the deviation from a uniform distribution is
                // negligible.
                span => low.wrapping_add(random % span),
            }
        }
    }
}

/// A pseudorandom number that depends only on the arguments: one step of SplitMix64, which passes
/// the usual statistical tests.
#[inline(always)]
pub(crate) fn random(seed: u64, k: u64) -> u64 {
    let mut x = seed.wrapping_add(k.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
