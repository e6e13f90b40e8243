//! Times in file names: `20261123T024144.123456789Z`, which is ISO 8601 in UTC, without colons.

use wirelane_wire::date;

/// Seconds of a day.
const DAY: u64 = 86_400;
/// Days from 1 March of year 0 to the epoch. An era is 400 years of 146097 days.
const EPOCH: u64 = 719_468;
const ERA: u64 = 146_097;

/// Nanoseconds since the epoch as text.
pub(crate) fn format(time: u64) -> String {
    let (seconds, nanos) = (time / 1_000_000_000, time % 1_000_000_000);
    let (days, rest) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = date::of_day(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{nanos:09}Z")
}

/// Parses a time in the format of [`format`]; `None` for any other text.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let field = |from: usize, to: usize| -> Option<u64> {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    let days = days(field(0, 4)?, field(4, 6)?, field(6, 8)?)?;
    let seconds = days * DAY + field(9, 11)? * 3_600 + field(11, 13)? * 60 + field(13, 15)?;
    let time = seconds.checked_mul(1_000_000_000)?.checked_add(field(16, 25)?)?;
    // The comparison excludes dates such as the 30th of February.
    (format(time) == text).then_some(time)
}

/// The inverse of [`date::of_day`]; any day if the date does not exist.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, shifted_month) =
        if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * shifted_month + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * ERA + day_of_era).checked_sub(EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times() {
        for (time, text) in [
            (0, "19700101T000000.000000000Z"),
            (951_782_400_000_000_001, "20000229T000000.000000001Z"),
            (1_795_401_704_123_456_789, "20261123T024144.123456789Z"),
            (u64::MAX, "25540721T233433.709551615Z"),
        ] {
            assert_eq!(format(time), text);
            assert_eq!(parse(text), Some(time));
        }
    }

    #[test]
    fn other_texts() {
        for text in [
            "",
            "19691231T235959.999999999Z",
            "00000000T000000.000000000Z",
            "20260230T000000.000000000Z",
            "20261123T246060.000000000Z",
            "20261123T024144.123456789",
            "20261123 024144.123456789Z",
            "2026112éT24144.123456789Z",
            "25540721T233433.709551616Z",
            "99991231T235959.999999999Z",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_time_survives(time: u64) {
            prop_assert_eq!(parse(&format(time)), Some(time));
        }

        #[test]
        fn any_text_is_safe(text in "\\PC{0,30}|[0-9]{8}T[0-9]{6}\\.[0-9]{9}Z") {
            if let Some(time) = parse(&text) {
                prop_assert_eq!(format(time), text);
            }
        }
    }
}
