//! Times and time spans, as people write and read them.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, time};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use wirelane::Error;
use wirelane::internal::clock;

use crate::args;

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400;

/// Advice on the formats of times.
const HELP: &str = "write 14:03, 14:03:05.5, -5m (ago), now, or RFC 3339 as 2026-11-23T14:03:05Z";

/// A point in time as the user wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimePoint {
    /// Nanoseconds since the epoch.
    At(u64),
    /// Date and time in the local time zone.
    Local(DateTime),
    /// Nanoseconds since midnight of some day.
    OfDay(u64),
    /// This long before now.
    Ago(Duration),
}

/// A time span of packets, in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeSpan {
    /// The time of the first packets.
    pub(crate) from: Option<u64>,
    /// The time from which on packets are excluded.
    pub(crate) to: Option<u64>,
}

/// The error for a span that cannot be.
pub(crate) fn refused(cause: String) -> Error {
    Error::usage("time", cause).help("name an end after the start")
}

impl FromStr for TimePoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text.trim()).ok_or_else(|| HELP.to_owned())
    }
}

impl TimeSpan {
    /// Resolves both times relative to now. A time of day for the start is the last one before now.
    /// A time of day for the end is the first one after the start, or without a start the last one
    /// before now.
    ///
    /// # Errors
    /// The time does not exist in the local time zone, or the end is before the start. The message
    /// says what to write.
    pub(crate) fn new(from: Option<TimePoint>, to: Option<TimePoint>) -> Result<Self, String> {
        Self::at(from, to, clock::realtime_ns())
    }

    fn at(from: Option<TimePoint>, to: Option<TimePoint>, now: u64) -> Result<Self, String> {
        let from = from.map(|from| from.resolve(now, None)).transpose()?;
        let to = to.map(|to| to.resolve(now, Some(from.unwrap_or(0)))).transpose()?;
        match (from, to) {
            (Some(from), Some(to)) if to <= from => {
                Err(format!("the end ({}) is not after the start ({})", show(to), show(from)))
            }
            _ => Ok(Self { from, to }),
        }
    }
}

impl TimePoint {
    /// In nanoseconds since the epoch. `start` is given for the end of a span.
    fn resolve(self, now: u64, start: Option<u64>) -> Result<u64, String> {
        match self {
            Self::At(time) => Ok(time),
            Self::Ago(time) => {
                Ok(now.saturating_sub(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
            }
            Self::Local(local) => {
                let found = times(local);
                // A time that occurs twice, when clocks are put back: include both.
                let time = if start.is_some() { found.last() } else { found.first() };
                time.copied().ok_or_else(|| "there is no such time in this time zone".to_owned())
            }
            Self::OfDay(time) => match start.filter(|start| *start > 0) {
                Some(start) => of_day(time, start, |found| found > start, true),
                None => of_day(time, now, |found| found <= now, false),
            },
        }
    }
}

/// The nearest time of day that is `wanted`, on the days around `near`: the first or the last.
fn of_day(
    of_day: u64,
    near: u64,
    wanted: impl Fn(u64) -> bool,
    first: bool,
) -> Result<u64, String> {
    let mut found = Vec::new();
    for days in -2..=2_i64 {
        let day = (near / SECOND) as i64 + days * DAY as i64;
        let Ok(day) = Timestamp::from_second(day) else { continue };
        let date = TimeZone::system().to_datetime(day).date();
        found.extend(times(at(date, of_day)).into_iter().filter(|at| wanted(*at)));
    }
    found.sort_unstable();
    let nearest = if first { found.first() } else { found.last() };
    nearest.copied().ok_or_else(|| "there is no such time in this time zone".to_owned())
}

/// The time of day `of_day` on a date, as clocks show it.
fn at(date: Date, of_day: u64) -> DateTime {
    let (seconds, nanos) = (of_day / SECOND, (of_day % SECOND) as i32);
    let [hour, minute, second] = [seconds / 3600, seconds / 60 % 60, seconds % 60];
    date.to_datetime(time(hour as i8, minute as i8, second as i8, nanos))
}

/// The times at which clocks of the local time zone show `local`, in nanoseconds since the epoch:
/// none if clocks were put forward over it, two if they were put back, the earlier one first.
fn times(local: DateTime) -> Vec<u64> {
    let offsets = match TimeZone::system().to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => vec![offset],
        AmbiguousOffset::Gap { .. } => Vec::new(),
        AmbiguousOffset::Fold { before, after } => vec![before, after],
    };
    let times = offsets.into_iter().filter_map(|offset| offset.to_timestamp(local).ok());
    times.filter_map(|time| u64::try_from(time.as_nanosecond()).ok()).collect()
}

/// A time for users: RFC 3339, in the local time zone.
pub(crate) fn show(time: u64) -> String {
    show_with(time, false)
}

/// As [`show`], with all nine digits of the fraction, so that times are aligned.
pub(crate) fn show_whole(time: u64) -> String {
    show_with(time, true)
}

fn show_with(time: u64, is_whole: bool) -> String {
    let (seconds, nanos) = (time / SECOND, time % SECOND);
    let timestamp = i64::try_from(seconds).ok().map(Timestamp::from_second);
    let Some(Ok(timestamp)) = timestamp else {
        return format!("{seconds}.{nanos:09} s after 1970");
    };
    let offset = TimeZone::system().to_offset(timestamp);
    let mut text = format!("{:.0}", offset.to_datetime(timestamp));
    if nanos > 0 || is_whole {
        let fraction = format!("{nanos:09}");
        text += ".";
        text += if is_whole { &fraction } else { fraction.trim_end_matches('0') };
    }
    match offset.seconds() {
        0 => text += "Z",
        _ => {
            let (sign, east) =
                (if offset.is_negative() { '-' } else { '+' }, offset.seconds().unsigned_abs());
            text += &format!("{sign}{:02}:{:02}", east / 3600, east / 60 % 60);
        }
    }
    text
}

fn parse(text: &str) -> Option<TimePoint> {
    if text == "now" {
        return Some(TimePoint::Ago(Duration::ZERO));
    }
    if let Some(ago) = text.strip_prefix('-') {
        return args::duration(ago).ok().map(TimePoint::Ago);
    }
    if text.get(4..5) == Some("-") {
        return date_and_time(text);
    }
    let (time, rest) = time_of_day(text)?;
    rest.is_empty().then_some(TimePoint::OfDay(time))
}

/// `2026-11-23`, then `T14:03` or more, then an offset from UTC or nothing.
fn date_and_time(text: &str) -> Option<TimePoint> {
    let date = text.get(..10)?;
    let (year, month) = (digits(date.get(..4)?)?, digits(date.get(5..7)?)?);
    let day = digits(date.get(8..)?)?;
    if date.get(7..8) != Some("-") {
        return None;
    }
    let rest = text.get(10..)?;
    let (time, zone) = match rest.strip_prefix(['T', 't', ' ']) {
        Some(rest) => time_of_day(rest)?,
        None => (0, rest),
    };
    let date = Date::new(year as i16, month as i8, day as i8).ok().filter(|_| year >= 1970)?;
    let local = at(date, time);
    if zone.is_empty() {
        return Some(TimePoint::Local(local));
    }
    let time = offset(zone)?.to_timestamp(local).ok()?;
    Some(TimePoint::At(u64::try_from(time.as_nanosecond()).ok()?))
}

/// Nanoseconds since midnight, and the rest of the text: `14:03`, `14:03:05`, `14:03:05.123456789`.
fn time_of_day(text: &str) -> Option<(u64, &str)> {
    let (hour, rest) = field(text, 23)?;
    let (minute, rest) = field(rest.strip_prefix(':')?, 59)?;
    let Some(rest) = rest.strip_prefix(':') else {
        return Some(((hour * 3600 + minute * 60) * SECOND, rest));
    };
    let (second, rest) = field(rest, 59)?;
    let time = (hour * 3600 + minute * 60 + second) * SECOND;
    let Some(rest) = rest.strip_prefix('.') else { return Some((time, rest)) };
    let len = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, rest) = rest.split_at_checked(len)?;
    let nanos = digits(&format!("{fraction:0<9}")).filter(|_| (1..=9).contains(&len))?;
    Some((time + nanos, rest))
}

/// An offset from UTC: `Z`, `+01:00`, `-0330`.
fn offset(text: &str) -> Option<Offset> {
    if matches!(text, "Z" | "z") {
        return Some(Offset::UTC);
    }
    let east = match text.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let (hours, rest) = field(text.get(1..)?, 23)?;
    let (minutes, rest) = field(rest.strip_prefix(':').unwrap_or(rest), 59)?;
    let seconds = east * (hours * 3600 + minutes * 60) as i32;
    Offset::from_seconds(seconds).ok().filter(|_| rest.is_empty())
}

/// Two digits, up to `most`.
fn field(text: &str, most: u64) -> Option<(u64, &str)> {
    let (number, rest) = text.split_at_checked(2)?;
    Some((digits(number).filter(|number| *number <= most)?, rest))
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-23T02:41:44Z.
    const NOW: u64 = 1_795_401_704 * SECOND;

    fn span(from: &str, to: &str) -> Result<TimeSpan, String> {
        let parse = |text: &str| (!text.is_empty()).then(|| text.parse()).transpose();
        TimeSpan::at(parse(from)?, parse(to)?, NOW)
    }

    fn from(text: &str) -> u64 {
        span(text, "").unwrap().from.unwrap()
    }

    #[test]
    fn rfc_3339() {
        for (text, seconds, nanos) in [
            ("2026-11-23T02:41:44Z", 1_795_401_704, 0),
            ("2026-11-23T02:41:44.5z", 1_795_401_704, 500_000_000),
            ("2026-11-23t03:41:44.123456789+01:00", 1_795_401_704, 123_456_789),
            ("2026-11-22 23:11:44-0330", 1_795_401_704, 0),
            ("1970-01-01T00:00:00Z", 0, 0),
            ("2000-02-29T00:00Z", 951_782_400, 0),
            ("2100-03-01T00:00:00Z", 4_107_542_400, 0),
        ] {
            assert_eq!(from(text), seconds * SECOND + nanos, "{text}");
        }
    }

    #[test]
    fn local_times_survive() {
        for time in [NOW, NOW + 5, NOW + 500_000_000, NOW - 200 * DAY * SECOND] {
            let text = show(time);
            assert_eq!(from(&text), time, "{text}");
            // Without its offset, it is local time. No clock is put back at these times.
            let end = text.rfind(['Z', '+', '-']).unwrap();
            assert_eq!(from(&text[..end]), time, "{text}");
        }
    }

    #[test]
    fn times_of_day_are_the_last_ones() {
        let shown = show(NOW);
        let day = |text: &str| text[11..19].to_owned();
        assert_eq!(from(&day(&shown)), NOW);
        let later = show(NOW + 60 * SECOND);
        assert_eq!(show(from(&day(&later)))[..10], show(NOW + 60 * SECOND - DAY * SECOND)[..10]);
        assert_eq!(from(&day(&later)), NOW + 60 * SECOND - DAY * SECOND);
        assert_eq!(from("-5m"), NOW - 300 * SECOND);
        assert_eq!(from("now"), NOW);
    }

    #[test]
    fn an_end_is_the_first_after_the_start() {
        let day = |time: u64| show(time)[11..19].to_owned();
        let minute = 60 * SECOND;
        for start in [NOW, NOW - 5 * minute, NOW - 20 * 60 * minute] {
            let end = start + 12 * minute;
            let found = span(&day(start), &day(end)).unwrap();
            assert_eq!((found.from, found.to), (Some(start), Some(end)));
        }
        // Without a start it is the last one before now.
        assert_eq!(span("", &day(NOW - minute)).unwrap().to, Some(NOW - minute));
        assert!(span("-5m", "-6m").unwrap_err().contains("is not after the start"));
    }

    #[test]
    fn other_texts() {
        for text in [
            "",
            "-",
            "5m",
            "24:00",
            "14:60",
            "14:3",
            "1:03",
            "14:03:",
            "14:03:60",
            "14:03:05.",
            "14:03:05.1234567890",
            "14:03Z",
            "2026-13-01",
            "2026-02-29T00:00Z",
            "2026-11-23T14",
            "2026-11-23T14:03:05+1",
            "2026-11-23T14:03:05+25:00",
            "1969-12-31T23:59:59Z",
            "2026-11-23X14:03",
            "é4:03",
            "2026-é1-23",
            "99999-01-01",
            "--5m",
            "-5x",
            "tomorrow",
        ] {
            assert!(text.parse::<TimePoint>().is_err(), "{text:?}");
        }
    }
}
