//! The result of sending in a summary.

use std::time::Duration;

use serde::Serialize;
use wirelane_send::{SendOutcome, Timing};

use super::{grouped, line, scaled};

/// Keys that only the summary of `send` has.
#[derive(Serialize)]
pub(crate) struct SendSummary {
    engine: &'static str,
    /// Why the kernel engine was refused, if it was considered.
    kernel_refused: Option<String>,
    /// The requested pace; `null` for as fast as possible.
    scheduled: Option<PaceSummary>,
    achieved: PaceSummary,
    /// The achieved rate divided by the scheduled one, less 1.
    rate_error: Option<f64>,
    departure_error: Option<ScheduleErrors>,
    /// How far the schedule was moved because the rate was not reached.
    moved_s: f64,
    moves: u64,
    skipped: SkippedSummary,
}

#[derive(Serialize)]
struct PaceSummary {
    packets_per_s: Option<f64>,
    duration_s: f64,
}

/// Departures compared with their schedule.
#[derive(Serialize)]
struct ScheduleErrors {
    p50_ns: u128,
    p99_ns: u128,
    max_ns: u128,
}

#[derive(Serialize)]
struct SkippedSummary {
    too_long: u64,
    unsent: u64,
}

impl SendSummary {
    pub(crate) fn new(outcome: &SendOutcome, refusal: Option<&str>) -> Self {
        let timing: &Timing = &outcome.timing;
        let scheduled = timing.scheduled.map(|time| PaceSummary {
            packets_per_s: timing.scheduled_rate(),
            duration_s: time.as_secs_f64(),
        });
        let errors = timing.error.map(|error| ScheduleErrors {
            p50_ns: error.p50.as_nanos(),
            p99_ns: error.p99.as_nanos(),
            max_ns: error.max.as_nanos(),
        });
        Self {
            engine: outcome.engine.as_str(),
            kernel_refused: refusal.map(str::to_owned),
            scheduled,
            achieved: PaceSummary {
                packets_per_s: timing.achieved_rate(),
                duration_s: timing.actual.as_secs_f64(),
            },
            rate_error: timing.rate_error(),
            departure_error: errors,
            moved_s: timing.moved.as_secs_f64(),
            moves: timing.moves,
            skipped: SkippedSummary {
                too_long: outcome.skipped.too_long,
                unsent: outcome.skipped.unsent,
            },
        }
    }

    /// Packets that were neither sent nor refused.
    pub(super) fn skipped(&self) -> u64 {
        self.skipped.too_long + self.skipped.unsent
    }

    /// The first line: packets sent, rate and time.
    pub(super) fn headline(&self, packets: u64, bytes: u64, lost: u64, elapsed_s: f64) -> String {
        let mut text = format!("{} sent", grouped(packets));
        if lost > 0 {
            text += &format!(", {} not sent", grouped(lost));
        }
        let seconds =
            if self.achieved.duration_s > 0.0 { self.achieved.duration_s } else { elapsed_s };
        let rate = self.achieved.packets_per_s.unwrap_or(packets as f64 / elapsed_s.max(1e-9));
        let bits = bytes as f64 * 8.0 / seconds.max(1e-9);
        text + &format!(" in {elapsed_s:.3} s ({}packet/s, {}bit/s)", scaled(rate), scaled(bits))
    }

    /// Prints how exactly packets were sent.
    pub(super) fn print(&self) {
        if let (Some(scheduled), Some(achieved), Some(error)) = (
            self.scheduled.as_ref().and_then(|pace| pace.packets_per_s),
            self.achieved.packets_per_s,
            self.rate_error,
        ) {
            line(format_args!(
                "rate: {} packet/s scheduled, {} achieved ({:+.3} %)",
                exact(scheduled),
                exact(achieved),
                error * 100.0
            ));
        }
        if let Some(ScheduleErrors { p50_ns, p99_ns, max_ns }) = &self.departure_error {
            line(format_args!(
                "departures: half within {} of their time, 99 % within {}, the worst {}",
                time(*p50_ns),
                time(*p99_ns),
                time(*max_ns)
            ));
        }
    }

    /// A note if packets left later than scheduled.
    pub(super) fn note(&self) -> Option<String> {
        let moved = self.moved_s;
        (self.moves > 0).then(|| {
            format!(
                "the rate was not reached: packets left up to {moved:.3} s later than scheduled"
            )
        })
    }
}

/// A rate with digits enough to see an error of a thousandth.
fn exact(rate: f64) -> String {
    if rate < 1000.0 { format!("{rate:.2}") } else { grouped(rate.round() as u64) }
}

fn time(nanoseconds: u128) -> String {
    let time = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
    match time.as_nanos() {
        0..1_000 => format!("{} ns", time.as_nanos()),
        1_000..1_000_000 => format!("{:.1} µs", time.as_secs_f64() * 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.3} s", time.as_secs_f64()),
    }
}
