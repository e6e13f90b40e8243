//! How exactly packets left: departures compared with the schedule.

use std::time::Duration;

use hdrhistogram::Histogram;

/// What one thread measures.
pub(crate) struct Departures {
    /// There always is one: its limits are valid.
    errors: Option<Histogram<u64>>,
    scheduled: Option<(u64, u64)>,
    actual: (u64, u64),
    packets: u64,
    moved: (u64, u64),
    /// Packets are handed over so long before they are due, to a device that waits.
    lead: u64,
}

impl Departures {
    /// The longest error that is told apart, in nanoseconds: a minute.
    const LONGEST: u64 = 60_000_000_000;

    pub(crate) fn new() -> Self {
        Self {
            errors: Histogram::new_with_max(Self::LONGEST, 2).ok(),
            scheduled: None,
            actual: (u64::MAX, 0),
            packets: 0,
            moved: (0, 0),
            lead: 0,
        }
    }

    /// What is handed over so early leaves on time: the device waits.
    pub(crate) fn leading(self, lead: u64) -> Self {
        Self { lead, ..self }
    }

    /// Packets of these times left together, at `now`; they were to leave at `start` and their
    /// time.
    #[inline]
    pub(crate) fn record(&mut self, times: &[u64], start: u64, now: u64) {
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return };
        self.packets += times.len() as u64;
        let (scheduled, _) = *self.scheduled.get_or_insert((*first, *last));
        self.scheduled = Some((scheduled, (*last).max(*first)));
        if self.actual.0 == u64::MAX {
            self.actual.0 = now;
        }
        self.actual.1 = now;
        let Some(errors) = &mut self.errors else { return };
        for at in times.iter().filter(|at| **at > 0) {
            let due = start + at;
            let is_early = self.lead > 0 && now <= due;
            errors.saturating_record(if is_early { 0 } else { now.abs_diff(due) });
        }
    }

    /// `packets` packets left between two times, which were to leave between two times of the
    /// schedule.
    pub(crate) fn record_span(&mut self, packets: u64, scheduled: (u64, u64), actual: (u64, u64)) {
        self.packets += packets;
        let (first, last) = self.scheduled.unwrap_or(scheduled);
        self.scheduled = Some((first.min(scheduled.0), last.max(scheduled.1)));
        self.actual = (self.actual.0.min(actual.0), self.actual.1.max(actual.1));
    }

    /// `packets` packets left `error` nanoseconds from their time.
    pub(crate) fn record_errors(&mut self, error: u64, packets: u64) {
        if let Some(errors) = &mut self.errors {
            errors.saturating_record_n(error, packets);
        }
    }

    /// By how much the schedule was moved, and how often.
    pub(crate) fn set_moved(&mut self, moved: (u64, u64)) {
        self.moved = moved;
    }

    /// Adds what another thread measured.
    pub(crate) fn add(&mut self, other: &Self) {
        if let (Some(errors), Some(others)) = (&mut self.errors, &other.errors) {
            // Both have the same limits.
            let _ = errors.add(others);
        }
        self.packets += other.packets;
        self.scheduled = match (self.scheduled, other.scheduled) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        self.actual = (self.actual.0.min(other.actual.0), self.actual.1.max(other.actual.1));
        self.moved = (self.moved.0.max(other.moved.0), self.moved.1 + other.moved.1);
    }

    /// The result.
    pub(crate) fn timing(&self) -> Timing {
        let (first, last) = self.scheduled.unwrap_or_default();
        let actual = self.actual.1.saturating_sub(self.actual.0);
        let is_paced = last > first;
        let errors = self.errors.as_ref().filter(|errors| is_paced && !errors.is_empty());
        Timing {
            packets: self.packets,
            scheduled: is_paced.then(|| Duration::from_nanos(last - first)),
            actual: Duration::from_nanos(actual),
            error: errors.map(|errors| DepartureError {
                p50: Duration::from_nanos(errors.value_at_quantile(0.5)),
                p99: Duration::from_nanos(errors.value_at_quantile(0.99)),
                max: Duration::from_nanos(errors.max()),
            }),
            moved: Duration::from_nanos(self.moved.0),
            moves: self.moved.1,
        }
    }
}

/// How exactly packets left.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Timing {
    /// Packets that were written to be sent.
    pub packets: u64,
    /// From the first departure to the last, as scheduled; `None` for as fast as possible.
    pub scheduled: Option<Duration>,
    /// From the first departure to the last.
    pub actual: Duration,
    /// Departures compared with the schedule; `None` for as fast as possible. An early departure
    /// counts like a late one.
    pub error: Option<DepartureError>,
    /// By how much the schedule was moved: for how long the rate could not be had.
    pub moved: Duration,
    /// How often it was.
    pub moves: u64,
}

/// The distribution of the differences between departures and their schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DepartureError {
    /// Half of the packets left closer to their time.
    pub p50: Duration,
    /// 99 % of the packets left closer to their time.
    pub p99: Duration,
    /// The largest.
    pub max: Duration,
}

impl Timing {
    /// Packets per second that were to be sent; `None` for as fast as possible.
    pub fn scheduled_rate(&self) -> Option<f64> {
        self.scheduled.and_then(|time| self.rate(time))
    }

    /// Packets per second that were sent.
    pub fn achieved_rate(&self) -> Option<f64> {
        self.rate(self.actual)
    }

    /// By which share the achieved rate is above the scheduled one.
    pub fn rate_error(&self) -> Option<f64> {
        let (scheduled, achieved) = (self.scheduled_rate()?, self.achieved_rate()?);
        Some(achieved / scheduled - 1.0)
    }

    /// The first packet begins the time that the others take.
    fn rate(&self, time: Duration) -> Option<f64> {
        let seconds = time.as_secs_f64();
        (self.packets > 1 && seconds > 0.0).then(|| (self.packets - 1) as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_waits_sends_on_time() {
        let mut departures = Departures::new().leading(1000);
        departures.record(&[500, 900], 10_000, 10_100);
        departures.record(&[1000], 10_000, 11_700);
        let errors = departures.errors.unwrap();
        assert_eq!(errors.value_at_quantile(0.5), 0);
        assert!((690..=710).contains(&errors.max()));
    }

    #[test]
    fn rates_and_errors_of_two_threads() {
        let (mut one, mut two) = (Departures::new(), Departures::new());
        one.record(&[0, 2000], 10_000, 12_000);
        one.record(&[4000], 10_000, 14_100);
        two.record(&[1000, 3000], 10_000, 13_000);
        one.add(&two);
        let timing = one.timing();
        assert_eq!((timing.packets, timing.scheduled), (5, Some(Duration::from_nanos(4000))));
        assert_eq!(timing.actual, Duration::from_nanos(2100));
        assert_eq!(timing.scheduled_rate(), Some(1e6));
        let error = timing.error.unwrap();
        assert_eq!((error.p50, error.max), (Duration::ZERO, Duration::from_nanos(2007)));
        assert!((timing.rate_error().unwrap() - (4000.0 / 2100.0 - 1.0)).abs() < 1e-9);
    }

    #[test]
    fn without_a_schedule_there_is_no_error() {
        let mut departures = Departures::new();
        departures.record(&[0, 0], 5, 7);
        departures.record(&[0], 5, 1_000_000_007);
        let timing = departures.timing();
        assert_eq!((timing.scheduled, timing.error, timing.rate_error()), (None, None, None));
        assert_eq!(timing.achieved_rate(), Some(2.0));
    }
}
