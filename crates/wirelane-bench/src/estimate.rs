//! Estimates the time that the remaining suites take, and the time that each may take.

use std::time::{Duration, Instant};

/// The least time of a suite, however late the run is: the first round always runs.
const LEAST: Duration = Duration::from_secs(2);

/// Estimates the duration of a run.
#[derive(Debug)]
pub(crate) struct Estimate {
    /// How long each suite usually takes.
    usual: Vec<Duration>,
    /// How long all may take together.
    limit: Option<Duration>,
    start: Option<Instant>,
    /// The suite that runs, and since when.
    current: usize,
    began: Instant,
}

impl Estimate {
    /// `usual` has the usual time of each suite.
    pub(crate) fn new(usual: &[Duration], limit: Option<Duration>) -> Self {
        Self { usual: usual.to_vec(), limit, start: None, current: 0, began: Instant::now() }
    }

    /// A suite begins.
    pub(crate) fn begin(&mut self, suite: usize, now: Instant) {
        self.start.get_or_insert(now);
        (self.current, self.began) = (suite, now);
    }

    /// The time allowed for the current suite: its usual share of the remaining time, or the time
    /// that the later suites do not need, whichever is longer. `None` if there is no limit.
    pub(crate) fn limit(&self) -> Option<Duration> {
        let gone = self.began.saturating_duration_since(self.start?);
        let left = self.limit?.saturating_sub(gone).as_secs_f64();
        let (own, after) = (self.usual(self.current), self.after());
        let share = left * own / (own + after).max(f64::MIN_POSITIVE);
        let spare = left - after * self.pace().max(1.0);
        Some(Duration::from_secs_f64(share.max(spare)).max(LEAST))
    }

    /// The estimated time until the end of the run. If earlier suites took longer than usual, the
    /// machine is slow, and later suites are expected to take longer, too.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        let gone = now.saturating_duration_since(self.began).as_secs_f64();
        let pace = self.pace();
        let own = (self.usual(self.current) * pace - gone).max(0.0);
        let left = Duration::from_secs_f64(own + self.after() * pace);
        match (self.limit, self.start) {
            (Some(limit), Some(start)) => {
                left.min(limit.saturating_sub(now.saturating_duration_since(start)))
            }
            _ => left,
        }
    }

    /// How many times as long as usual the earlier suites took.
    fn pace(&self) -> f64 {
        let before: f64 = (0..self.current).map(|suite| self.usual(suite)).sum();
        let passed = |start| self.began.saturating_duration_since(start).as_secs_f64();
        let passed = self.start.map_or(0.0, passed);
        if before > 1.0 { (passed / before).clamp(0.2, 5.0) } else { 1.0 }
    }

    /// How many seconds a suite usually takes.
    fn usual(&self, suite: usize) -> f64 {
        self.usual.get(suite).copied().unwrap_or_default().as_secs_f64()
    }

    fn after(&self) -> f64 {
        (self.current + 1..self.usual.len()).map(|suite| self.usual(suite)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn time_is_shared_as_usual() {
        let now = Instant::now();
        let mut estimate = Estimate::new(&[seconds(10), seconds(30)], Some(seconds(20)));
        assert_eq!(estimate.limit(), None);
        estimate.begin(0, now);
        assert_eq!(estimate.limit(), Some(seconds(5)));
        // The second suite gets the time that the first one did not need.
        estimate.begin(1, now + seconds(2));
        assert_eq!(estimate.limit(), Some(seconds(18)));
        estimate.begin(1, now + seconds(100));
        assert_eq!(estimate.limit(), Some(LEAST));
        assert_eq!(Estimate::new(&[seconds(1)], None).limit(), None);
    }

    #[test]
    fn what_is_spare_is_there_for_whoever_comes_first() {
        let now = Instant::now();
        let usual = [seconds(10), seconds(10), seconds(20)];
        let mut estimate = Estimate::new(&usual, Some(seconds(60)));
        estimate.begin(0, now);
        assert_eq!(estimate.limit(), Some(seconds(30)));
        // On a slow machine the others need more.
        estimate.begin(1, now + seconds(15));
        assert_eq!(estimate.limit(), Some(seconds(15)));
    }

    #[test]
    fn a_slow_machine_is_slow_all_the_way() {
        let now = Instant::now();
        let mut estimate = Estimate::new(&[seconds(10), seconds(30), seconds(20)], None);
        estimate.begin(0, now);
        assert_eq!(estimate.left(now), seconds(60));
        assert_eq!(estimate.left(now + seconds(4)), seconds(56));
        // Longer than usual: it must be about to end.
        assert_eq!(estimate.left(now + seconds(15)), seconds(50));
        estimate.begin(1, now + seconds(20));
        assert_eq!(estimate.left(now + seconds(20)), seconds(100));
        let mut hurried = Estimate::new(&[seconds(10), seconds(30)], Some(seconds(25)));
        hurried.begin(0, now);
        assert_eq!(hurried.left(now + seconds(5)), seconds(20));
        assert_eq!(hurried.left(now + seconds(50)), Duration::ZERO);
    }
}
