//! Times at the beginning of lines.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use crate::line::TextLine;
use crate::style::{Precision, Style, Time};

const SECOND: u64 = 1_000_000_000;
/// UTC offsets are multiples of a quarter of an hour, and change only at such times.
const QUARTER: u64 = 900;

/// State from earlier packets, and the time zone.
#[derive(Debug, Default)]
pub(crate) struct PrintClock {
    /// The time of the first packet or of the previous packet.
    reference: Option<u64>,
    /// The quarter of an hour of the last packet, and its UTC offset.
    zone: Option<(u64, i64)>,
    /// The day of the last packet, and its date.
    date: Option<(i64, String)>,
}

impl PrintClock {
    /// Adds a packet's time as `style` wants it, and a space.
    pub(crate) fn print(&mut self, line: &mut TextLine<'_>, style: &Style, timestamp: u64) {
        match style.time {
            Time::None => return,
            Time::Epoch => {
                line.number(timestamp / SECOND);
                fraction(line, style, timestamp);
            }
            Time::OfDay | Time::Date => self.wall(line, style, timestamp),
            Time::Delta | Time::Relative => {
                let reference = *self.reference.get_or_insert(timestamp);
                let past = timestamp.abs_diff(reference);
                line.put(if timestamp < reference { "-" } else { " " });
                of_day(line, past / SECOND % 86_400);
                fraction(line, style, past);
                if style.time == Time::Delta {
                    self.reference = Some(timestamp);
                }
            }
        }
        line.put(" ");
    }

    fn wall(&mut self, line: &mut TextLine<'_>, style: &Style, timestamp: u64) {
        let utc = timestamp / SECOND;
        let quarter = utc / QUARTER;
        let offset = match self.zone {
            Some((known, offset)) if known == quarter => offset,
            _ => {
                let time = Timestamp::from_second(utc.cast_signed());
                let offset = time.map(|time| TimeZone::system().to_offset(time));
                let offset = i64::from(offset.unwrap_or(Offset::UTC).seconds());
                self.zone = Some((quarter, offset));
                offset
            }
        };
        let local = utc.cast_signed().saturating_add(offset);
        if style.time == Time::Date {
            let day = local.div_euclid(86_400);
            if self.date.as_ref().is_none_or(|(known, _)| *known != day) {
                let shown = Timestamp::from_second(local);
                let date = shown.map(|time| format!("{} ", Offset::UTC.to_datetime(time).date()));
                self.date = Some((day, date.unwrap_or_default()));
            }
            line.put(self.date.as_ref().map_or("", |(_, date)| date));
        }
        of_day(line, local.rem_euclid(86_400).cast_unsigned());
        fraction(line, style, timestamp);
    }
}

/// Adds `14:03:05` for seconds of a day.
fn of_day(line: &mut TextLine<'_>, seconds: u64) {
    let seconds = seconds as u32;
    line.padded(seconds / 3600, 2)
        .put(":")
        .padded(seconds / 60 % 60, 2)
        .put(":")
        .padded(seconds % 60, 2);
}

fn fraction(line: &mut TextLine<'_>, style: &Style, nanoseconds: u64) {
    let nanoseconds = (nanoseconds % SECOND) as u32;
    line.put(".");
    match style.precision {
        Precision::Micro => line.padded(nanoseconds / 1000, 6),
        Precision::Nano => line.padded(nanoseconds, 9),
    };
}
