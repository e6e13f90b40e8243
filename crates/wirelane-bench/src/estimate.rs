//! Estimates the time that the remaining suites take, and the time that each may take.

use std::time::{Duration, Instant};

/// What a suite has at least, however late it is: its first round is run.
const LEAST: Duration = Duration::from_secs(2);

/// The time of a run: what is known of it so far.
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
    /// Of suites that usually take so long.
    pub(crate) fn new(usual: &[Duration], limit: Option<Duration>) -> Self {
        Self { usual: usual.to_vec(), limit, start: None, current: 0, began: Instant::now() }
    }

    /// A suite begins.
    pub(crate) fn begin(&mut self, suite: usize, now: Instant) {
        self.start.get_or_insert(now);
        (self.current, self.began) = (suite, now);
    }

    /// What the suite that has begun may take: of the time that is left the share that it usually has among
    /// those that are left. `None` if there is no limit.
    pub(crate) fn limit(&self) -> Option<Duration> {
        let gone = self.began.saturating_duration_since(self.start?);
        let left = self.limit?.saturating_sub(gone);
        let of = |suites: &[Duration]| suites.iter().sum::<Duration>().as_secs_f64();
        let rest = self.usual.get(self.current..)?;
        let own = rest.first()?.as_secs_f64();
        Some(left.mul_f64(own / of(rest).max(own).max(f64::MIN_POSITIVE)).max(LEAST))
    }

    /// What all of them will take yet. Suites that took longer than usual make those after them look
    /// longer, too: the machine is slow.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        let usual = |suite: usize| self.usual.get(suite).copied().unwrap_or_default().as_secs_f64();
        let gone = now.saturating_duration_since(self.began).as_secs_f64();
        let before: f64 = (0..self.current).map(usual).sum();
        let passed = self
            .start
            .map_or(0.0, |start| self.began.saturating_duration_since(start).as_secs_f64());
        let pace = if before > 1.0 { (passed / before).clamp(0.2, 5.0) } else { 1.0 };
        let own = (usual(self.current) * pace - gone).max(0.0);
        let after: f64 = (self.current + 1..self.usual.len()).map(usual).sum();
        let left = Duration::from_secs_f64(own + after * pace);
        match (self.limit, self.start) {
            (Some(limit), Some(start)) => {
                left.min(limit.saturating_sub(now.saturating_duration_since(start)))
            }
            _ => left,
        }
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
        let mut estimate = Estimate::new(&[seconds(10), seconds(30)], Some(seconds(80)));
        assert_eq!(estimate.limit(), None);
        estimate.begin(0, now);
        assert_eq!(estimate.limit(), Some(seconds(20)));
        // What the first one did not need is there for the second.
        estimate.begin(1, now + seconds(5));
        assert_eq!(estimate.limit(), Some(seconds(75)));
        estimate.begin(1, now + seconds(100));
        assert_eq!(estimate.limit(), Some(LEAST));
        assert_eq!(Estimate::new(&[seconds(1)], None).limit(), None);
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
