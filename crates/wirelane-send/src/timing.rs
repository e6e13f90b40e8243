//! Timing precision: departures compared with the schedule.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The measurements of one thread.
pub(crate) struct Departures {
    /// Always `Some`: the limits of the histogram are valid.
    errors: Option<Histogram<u64>>,
    scheduled: Option<(u64, u64)>,
    actual: (u64, u64),
    packets: u64,
    moved: (u64, u64),
    /// How early packets go to a device that launches them at their time, in nanoseconds.
    lead: u64,
}

impl Departures {
    /// The largest error that is recorded, in nanoseconds: a minute.
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

    /// Sets how early packets go to a device that launches them at their time. Early packets then
    /// count as on time.
    pub(crate) fn leading(self, lead: u64) -> Self {
        Self { lead, ..self }
    }

    /// Records that packets left together at `now`. Each was scheduled for `start` plus its time.
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

    /// Records `packets` departures: the first and last scheduled time, and the first and last
    /// actual time.
    pub(crate) fn record_span(&mut self, packets: u64, scheduled: (u64, u64), actual: (u64, u64)) {
        self.packets += packets;
        let (first, last) = self.scheduled.unwrap_or(scheduled);
        self.scheduled = Some((first.min(scheduled.0), last.max(scheduled.1)));
        self.actual = (self.actual.0.min(actual.0), self.actual.1.max(actual.1));
    }

    /// Records that `packets` packets left `error` nanoseconds before or after their time.
    pub(crate) fn record_errors(&mut self, error: u64, packets: u64) {
        if let Some(errors) = &mut self.errors {
            errors.saturating_record_n(error, packets);
        }
    }

    /// Sets the total of all moves of the schedule, and their number.
    pub(crate) fn set_moved(&mut self, moved: (u64, u64)) {
        self.moved = moved;
    }

    /// Adds the measurements of another thread.
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

/// Timing precision of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Timing {
    /// Packets that were written for sending.
    pub packets: u64,
    /// From the first departure to the last, as scheduled; `None` for as fast as possible.
    pub scheduled: Option<Duration>,
    /// From the first departure to the last.
    pub actual: Duration,
    /// Departures compared with the schedule; `None` for as fast as possible. An early departure
    /// counts like a late one.
    pub error: Option<DepartureError>,
    /// The total of all moves of the schedule: the time for which the sender could not keep the
    /// rate.
    pub moved: Duration,
    /// How often the schedule moved.
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
    /// The scheduled packets per second; `None` for as fast as possible.
    pub fn scheduled_rate(&self) -> Option<f64> {
        self.scheduled.and_then(|time| self.rate(time))
    }

    /// The achieved packets per second.
    pub fn achieved_rate(&self) -> Option<f64> {
        self.rate(self.actual)
    }

    /// The relative difference of the achieved rate to the scheduled rate; positive if faster.
    pub fn rate_error(&self) -> Option<f64> {
        let (scheduled, achieved) = (self.scheduled_rate()?, self.achieved_rate()?);
        Some(achieved / scheduled - 1.0)
    }

    /// Packets per second. The first packet starts the period, so it is not counted.
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
