//! Converts timestamps of any resolution and offset to nanoseconds since 1970.

use crate::record::OddTimes;

/// The time unit and offset of an interface.
#[derive(Clone, Copy)]
pub(super) enum TimeScale {
    Nanoseconds,
    /// Units of 10⁻ⁿ s, n < 9, as their length in nanoseconds; then an offset in nanoseconds.
    Multiply(u64, i128),
    /// Units of 10⁻ⁿ s, n > 9, as the number of units per nanosecond.
    Divide(u128, i128),
    /// Units of 2⁻ⁿ s.
    Shift(u32, i128),
}

impl TimeScale {
    /// `resolution` is `if_tsresol`: the exponent, of 2 if the top bit is set, else of 10. `offset`
    /// is in seconds.
    pub(super) fn new(resolution: u8, offset: i64) -> Self {
        let offset = i128::from(offset) * 1_000_000_000;
        match (resolution & 0x80 != 0, u32::from(resolution & 0x7f)) {
            (false, 9) if offset == 0 => Self::Nanoseconds,
            (false, exponent @ 0..=9) => Self::Multiply(10u64.pow(9 - exponent), offset),
            // With units below 10⁻²⁹ s, a 64-bit count is less than a nanosecond: 10²⁰ gives the
            // same result.
            (false, exponent) => Self::Divide(10u128.pow((exponent - 9).min(20)), offset),
            (true, exponent) => Self::Shift(exponent, offset),
        }
    }

    /// The time of a packet, or the nearest representable time; then `odd` counts it.
    #[inline]
    pub(super) fn of_packet(self, high: u32, low: u32, odd: &mut OddTimes) -> u64 {
        if let Self::Nanoseconds = self {
            return u64::from(high) << 32 | u64::from(low);
        }
        let (time, is_exact) = self.nanoseconds(high, low);
        let (is_early, is_late) = (time < 0, time > i128::from(u64::MAX));
        odd.early += u64::from(is_early);
        odd.late += u64::from(is_late);
        odd.finer += u64::from(!(is_exact || is_early || is_late));
        in_range(time)
    }

    /// Nanoseconds since 1970, rounded down, and whether the value is exact.
    pub(super) fn nanoseconds(self, high: u32, low: u32) -> (i128, bool) {
        let units = u64::from(high) << 32 | u64::from(low);
        let (nanoseconds, is_exact, offset) = match self {
            Self::Nanoseconds => return (units.into(), true),
            Self::Multiply(factor, offset) => {
                (u128::from(units) * u128::from(factor), true, offset)
            }
            Self::Divide(divisor, offset) => {
                let units = u128::from(units);
                (units / divisor, units.is_multiple_of(divisor), offset)
            }
            Self::Shift(bits, offset) => {
                // Below 2⁹⁴, and fewer than 2⁷ bits.
                let fine = u128::from(units) * 1_000_000_000;
                (fine >> bits, fine.trailing_zeros() >= bits, offset)
            }
        };
        // 2⁶⁴ units of 10⁹ ns stay below 2⁹⁴, so the sum cannot overflow.
        (nanoseconds.cast_signed() + offset, is_exact)
    }
}

/// The nearest time that a [`Record`](crate::Record) can hold.
pub(super) fn in_range(time: i128) -> u64 {
    time.clamp(0, i128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_in_any_resolution() {
        let at = |resolution, offset, units: u64| {
            let scale = TimeScale::new(resolution, offset);
            scale.of_packet((units >> 32) as u32, units as u32, &mut OddTimes::default())
        };
        assert_eq!(at(9, 0, 1_700_000_000_123_456_789), 1_700_000_000_123_456_789);
        assert_eq!(at(6, 0, 1_700_000_000_123_456), 1_700_000_000_123_456_000);
        assert_eq!(at(0, 0, 1_700_000_000), 1_700_000_000_000_000_000);
        assert_eq!(at(12, 0, 1_234_567), 1_234);
        assert_eq!(at(127, 0, u64::MAX), 0);
        assert_eq!(at(29, 0, u64::MAX), 0);
        assert_eq!(at(0x80 | 10, 0, 1536), 1_500_000_000);
        assert_eq!(at(0x80 | 127, 0, u64::MAX), 0);
        assert_eq!(at(0x80, 0, 2), 2_000_000_000);
        assert_eq!(at(9, 1_700_000_000, 5), 1_700_000_000_000_000_005);
        assert_eq!(at(9, -1, 5), 0, "before the epoch");
        assert_eq!(at(0, i64::MAX, u64::MAX), u64::MAX);
        assert_eq!(at(0x80, i64::MIN, 0), 0);
    }
    #[test]
    fn a_time_that_is_changed_is_counted() {
        let odd = |resolution, offset, units: u64| {
            let mut odd = OddTimes::default();
            let scale = TimeScale::new(resolution, offset);
            scale.of_packet((units >> 32) as u32, units as u32, &mut odd);
            [odd.early, odd.late, odd.finer]
        };
        let (fine, early, late, finer) = ([0; 3], [1, 0, 0], [0, 1, 0], [0, 0, 1]);
        for (resolution, offset, units, expected) in [
            (9, 0, u64::MAX, fine),
            (9, 1, u64::MAX - 1_000_000_000, fine),
            (9, 1, u64::MAX - 999_999_999, late),
            (9, -1, 1_000_000_000, fine),
            (9, -1, 999_999_999, early),
            (6, 0, u64::MAX / 1000, fine),
            (6, 0, u64::MAX / 1000 + 1, late),
            (0, i64::MIN, u64::MAX, fine),
            (0, i64::MIN, 0, early),
            (12, 0, 1000, fine),
            (12, 0, 1001, finer),
            (12, -1, 1001, early),
            (127, 0, 0, fine),
            (127, 0, 1, finer),
            (0x80 | 9, 0, 1, fine),
            (0x80 | 10, 0, 1, finer),
            (0x80, 0, u64::MAX, late),
            (0x80 | 127, 0, 1, finer),
        ] {
            let sum = i128::from(units) + i128::from(offset);
            let expected = if resolution == 0 && sum > 18_446_744_073 { late } else { expected };
            assert_eq!(odd(resolution, offset, units), expected, "{resolution} {offset} {units}");
        }
    }
}
