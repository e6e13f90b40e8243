//! A time span as a condition of SQL.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wirelane::{Error, Result};

/// The accepted notations.
const HELP: &str = "write 2026-11-23T14:03:05Z, 2026-11-23 14:03:05 (UTC), 2026-11-23, -5m for \
                    five minutes ago, or now";

/// A point in time from an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimePoint {
    At(Duration),
    Ago(Duration),
}

/// Parses the value of an argument.
pub(crate) fn moment(text: &str) -> Result<TimePoint, String> {
    let text = text.trim();
    if text == "now" {
        return Ok(TimePoint::Ago(Duration::ZERO));
    }
    if let Some(ago) = text.strip_prefix('-') {
        return humantime::parse_duration(ago).map(TimePoint::Ago).map_err(|_| HELP.to_owned());
    }
    let is_date = text.len() == "2026-11-23".len();
    let whole = if is_date { format!("{text}T00:00:00Z") } else { text.to_owned() };
    humantime::parse_rfc3339_weak(&whole)
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map(TimePoint::At)
        .ok_or_else(|| HELP.to_owned())
}

/// A time span, from `from` inclusive to `to` exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeSpan {
    from: Option<Duration>,
    to: Option<Duration>,
}

impl TimeSpan {
    /// # Errors
    /// The end is not after the start.
    pub(crate) fn new(from: Option<TimePoint>, to: Option<TimePoint>) -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let resolve = |moment| match moment {
            TimePoint::At(time) => time,
            TimePoint::Ago(ago) => now.saturating_sub(ago),
        };
        let (from, to) = (from.map(resolve), to.map(resolve));
        match (from, to) {
            (Some(from), Some(to)) if to <= from => {
                Err(Error::usage("--to", "the end is not after the start"))
            }
            _ => Ok(Self { from, to }),
        }
    }

    /// A condition on the start of flows.
    pub(crate) fn sql(&self) -> String {
        let from = self.from.map(|from| format!("flow_start >= {}", timestamp(from)));
        let to = self.to.map(|to| format!("flow_start < {}", timestamp(to)));
        let parts: Vec<_> = from.into_iter().chain(to).collect();
        if parts.is_empty() { "TRUE".to_owned() } else { parts.join(" AND ") }
    }
}

/// A time as the engine reads it.
fn timestamp(time: Duration) -> String {
    format!("TIMESTAMP '{}'", humantime::format_rfc3339_nanos(UNIX_EPOCH + time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_parsed() {
        let at = |seconds| Ok(TimePoint::At(Duration::from_secs(seconds)));
        assert_eq!(moment("2026-11-23T02:41:44Z"), at(1_795_401_704));
        assert_eq!(moment("2026-11-23 02:41:44"), at(1_795_401_704));
        assert_eq!(moment("2026-11-23"), at(1_795_392_000));
        assert_eq!(moment("-5m"), Ok(TimePoint::Ago(Duration::from_secs(300))));
        for wrong in ["", "yesterday", "-", "2026-13-01", "12"] {
            assert_eq!(moment(wrong), Err(HELP.to_owned()), "{wrong}");
        }
    }

    #[test]
    fn a_span_is_a_condition() {
        let span = TimeSpan::new(moment("2026-11-23T02:41:44Z").ok(), None).unwrap();
        assert_eq!(span.sql(), "flow_start >= TIMESTAMP '2026-11-23T02:41:44.000000000Z'");
        assert_eq!(TimeSpan::default().sql(), "TRUE");
        let both = |from, to| TimeSpan::new(moment(from).ok(), moment(to).ok());
        assert!(both("2026-11-24", "2026-11-23").is_err());
    }
}
