//! Times in messages: `dateTimeNanoseconds` (RFC 7011 section 6.1.9) has the format of NTP
//! timestamps.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds from 1900 to 1970.
const NTP_EPOCH: u64 = 2_208_988_800;
const NANOSECONDS: u64 = 1_000_000_000;

/// Converts a time in ns since 1970. Rounds up, so that [`from_ntp`], which rounds down, restores
/// each nanosecond.
pub(super) fn to_ntp(time: u64) -> u64 {
    let seconds = (time / NANOSECONDS).wrapping_add(NTP_EPOCH);
    let fraction = ((time % NANOSECONDS) << 32).div_ceil(NANOSECONDS);
    (seconds << 32) | fraction
}

/// Converts to ns since 1970. Seconds wrap in 2036, so times before 1968 in the first era are in
/// the second era.
pub(super) fn from_ntp(stamp: u64) -> u64 {
    let seconds = stamp >> 32;
    let era = if seconds & (1 << 31) == 0 { 1 << 32 } else { 0 };
    let seconds = (seconds + era).saturating_sub(NTP_EPOCH);
    seconds.saturating_mul(NANOSECONDS) + (((stamp & 0xffff_ffff) * NANOSECONDS) >> 32)
}

/// The current export time, in seconds since 1970.
pub(super) fn seconds_now() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // The field wraps in 2106.
    now.as_secs() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_come_back() {
        let day = 1_795_440_000 * NANOSECONDS;
        for time in
            (0..2_000).chain(day..day + 2_000).chain(day + NANOSECONDS - 9..day + NANOSECONDS)
        {
            assert_eq!(from_ntp(to_ntp(time)), time);
        }
    }

    #[test]
    fn the_second_era_follows_the_first() {
        let time = 2_200_000_000 * NANOSECONDS + 123_456_789;
        assert_eq!(from_ntp(to_ntp(time)), time);
        assert_eq!(from_ntp(u64::MAX) / NANOSECONDS, (1 << 32) - 1 - NTP_EPOCH);
    }
}
