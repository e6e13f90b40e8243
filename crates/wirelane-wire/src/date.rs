//! Dates of the Gregorian calendar, in UTC.

/// Days from 1 March of year 0 to the epoch. An era is 400 years of 146097 days.
const EPOCH: u64 = 719_468;
const ERA: u64 = 146_097;

/// Year, month and day of a day since 1970. Counts from 1 March of year 0, so that the leap day is
/// the last day of its year.
pub fn of_day(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH;
    let (era, day_of_era) = (days / ERA, days % ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153; // 0 is March
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        for (day, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_780, (2026, 11, 23)),
        ] {
            assert_eq!(of_day(day), date);
        }
    }
}
