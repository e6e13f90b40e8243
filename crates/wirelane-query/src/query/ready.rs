//! Ready queries: SQL with a name.

use std::time::Duration;

use super::span::TimeSpan;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyQuery {
    pub(crate) name: &'static str,
    text: &'static str,
    /// The columns for a plot.
    pub(crate) plotted: Plotted,
}

/// The columns that label a plot, and the column that it shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plotted {
    pub(crate) labels: &'static [&'static str],
    pub(crate) value: &'static str,
}

/// All ready queries.
pub(crate) const READY: [ReadyQuery; 4] = [
    ReadyQuery {
        name: "top-talkers",
        text: include_str!("ready/top-talkers.sql"),
        plotted: Plotted { labels: &["source", "destination"], value: "bytes" },
    },
    ReadyQuery {
        name: "retransmissions",
        text: include_str!("ready/retransmissions.sql"),
        plotted: Plotted { labels: &["source", "destination", "port"], value: "retransmissions" },
    },
    ReadyQuery {
        name: "timeline",
        text: include_str!("ready/timeline.sql"),
        plotted: Plotted { labels: &["time"], value: "bytes" },
    },
    ReadyQuery {
        name: "scans",
        text: include_str!("ready/scans.sql"),
        plotted: Plotted { labels: &["source"], value: "unanswered" },
    },
];

/// Values for the variables of a ready query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parameters {
    pub(crate) top: u64,
    pub(crate) span: TimeSpan,
    /// The step of a timeline.
    pub(crate) bucket: Option<Duration>,
}

impl ReadyQuery {
    pub(crate) fn find(name: &str) -> Option<Self> {
        READY.into_iter().find(|ready| ready.name == name)
    }

    /// The first comment of the SQL, which describes the query.
    pub(crate) fn about(&self) -> &'static str {
        let first = self.text.lines().next().unwrap_or_default();
        first.trim_start_matches("-- ").trim_end_matches('.')
    }

    /// Whether the query groups flows into buckets of time.
    pub(crate) fn has_buckets(&self) -> bool {
        self.text.contains("$bucket")
    }

    /// The SQL with its parameters. They need no quoting: each is a number or a time.
    pub(crate) fn sql(&self, parameters: &Parameters) -> String {
        let bucket = parameters.bucket.unwrap_or(Duration::from_secs(1)).as_nanos();
        self.text
            .replace("$bucket", &format!("INTERVAL '{bucket} nanoseconds'"))
            .replace("$span", &parameters.span.sql())
            .replace("$top", &parameters.top.to_string())
    }
}

/// SQL for the first and the last start of flows, in nanoseconds. A timeline needs both.
pub(crate) fn bounds(span: &TimeSpan) -> String {
    let start = "arrow_cast(arrow_cast(";
    let end = "(flow_start), 'Timestamp(Nanosecond, None)'), 'Int64')";
    let bound = |name| format!("{start}{name}{end}");
    format!("SELECT {}, {} FROM flows WHERE {}", bound("min"), bound("max"), span.sql())
}

/// A round length, about a sixtieth of the time between these, in nanoseconds.
pub(crate) fn bucket(first: i64, last: i64) -> Duration {
    const SECOND: u64 = 1_000_000_000;
    const SECONDS: [u64; 17] =
        [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400];
    let raw = last.abs_diff(first) / 60;
    let round = SECONDS.map(|seconds| seconds * SECOND).into_iter().find(|it| *it >= raw);
    if raw < SECOND {
        // 1, 2 or 5 times a power of ten.
        let decade = 10u64.pow(raw.max(1_000_000).ilog10());
        let step = [1, 2, 5, 10].into_iter().map(|it| it * decade).find(|it| *it >= raw);
        return Duration::from_nanos(step.unwrap_or(SECOND).min(SECOND));
    }
    let days = raw.div_ceil(86_400 * SECOND) * 86_400 * SECOND;
    Duration::from_nanos(round.unwrap_or(days))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parameters_are_replaced() {
        for ready in READY {
            let parameters = Parameters { top: 7, span: TimeSpan::default(), bucket: None };
            let sql = ready.sql(&parameters);
            assert!(!sql.contains('$'), "{sql}");
            assert!(sql.contains("FROM flows") && !ready.about().is_empty());
            assert_eq!(ReadyQuery::find(ready.name).map(|it| it.name), Some(ready.name));
        }
    }

    #[test]
    fn buckets_are_round() {
        let of = |seconds: f64| bucket(5, 5 + (seconds * 1e9) as i64).as_secs_f64();
        let found = [0.0, 0.3, 7.0, 60.0, 100.0, 3600.0, 86_400.0, 86_400.0 * 90.0].map(of);
        assert_eq!(found, [0.001, 0.005, 0.2, 1.0, 2.0, 60.0, 1800.0, 172_800.0]);
    }
}
