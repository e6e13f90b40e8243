//! Search goals, and the classification of rates by trials.

use std::time::Duration;

/// The conditions that a rate must meet (a search goal of MLRsearch, draft-ietf-bmwg-mlrsearch).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The acceptable share of lost packets; 0 for none.
    pub loss_ratio: f64,
    /// The share of the trials, by duration, that may lose more; 0 if every trial must pass.
    pub exceed_ratio: f64,
    /// The shortest trial that counts in full.
    pub duration: Duration,
    /// The total duration of trials that a rate needs to pass.
    pub duration_sum: Duration,
    /// The precision of the search: the largest distance of the passing and failing rates, as a
    /// share of the failing one.
    pub width: f64,
}

/// The result of one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shot {
    /// The duration of the trial.
    pub duration: Duration,
    /// Packets sent.
    pub sent: u64,
    /// Packets lost.
    pub lost: u64,
    /// The achieved packets per second.
    pub rate: f64,
}

impl Shot {
    /// The share of lost packets. It is 1 if no packet was sent, so that such a trial cannot pass.
    pub fn loss_ratio(&self) -> f64 {
        if self.sent == 0 { 1.0 } else { self.lost as f64 / self.sent as f64 }
    }

    /// Packets per second that arrived.
    pub fn forwarded(&self) -> f64 {
        self.rate * (1.0 - self.loss_ratio())
    }
}

/// The classification of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RateClass {
    /// The rate passes: a lower bound.
    Passes,
    /// The rate fails: an upper bound.
    Fails,
    /// More trials are needed.
    Open,
}

impl Goal {
    /// Classifies a rate by its `shots`, as in appendix A of the draft: the missing trials are
    /// first assumed to be all good, then all bad. If the result is the same, the rate is decided.
    /// Trials shorter than [`duration`](Self::duration) count only if they lost too much, minus the
    /// share that short good trials compensate for.
    pub(super) fn classify<'a>(&self, shots: impl IntoIterator<Item = &'a Shot>) -> RateClass {
        let [mut good, mut bad, mut short_good, mut short_bad] = [0.0; 4];
        for shot in shots {
            let is_good = shot.loss_ratio() <= self.loss_ratio;
            let sum = match (shot.duration >= self.duration, is_good) {
                (true, true) => &mut good,
                (true, false) => &mut bad,
                (false, true) => &mut short_good,
                (false, false) => &mut short_bad,
            };
            *sum += shot.duration.as_secs_f64();
        }
        let exceed = self.exceed_ratio.clamp(0.0, 0.99);
        let made_up = short_good * exceed / (1.0 - exceed);
        let bad: f64 = bad + f64::max(short_bad - made_up, 0.0);
        // Allows for rounding errors in sums of durations.
        let whole = f64::max(self.duration_sum.as_secs_f64() * (1.0 - 1e-9), good + bad);
        let bearable = whole * exceed;
        if whole - good <= bearable + whole * 1e-6 {
            RateClass::Passes
        } else if bad > bearable * (1.0 + 1e-6) {
            RateClass::Fails
        } else {
            RateClass::Open
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shot(seconds: u64, lost: u64) -> Shot {
        Shot { duration: Duration::from_secs(seconds), sent: 1000, lost, rate: 1000.0 }
    }

    fn goal(loss_ratio: f64, exceed_ratio: f64, sum: u64) -> Goal {
        let [duration, duration_sum] = [1, sum].map(Duration::from_secs);
        Goal { loss_ratio, exceed_ratio, duration, duration_sum, width: 0.01 }
    }

    #[test]
    fn every_trial_must_pass_without_an_exceed_ratio() {
        let goal = goal(0.0, 0.0, 3);
        let of =
            |lost: &[u64]| goal.classify(&lost.iter().map(|l| shot(1, *l)).collect::<Vec<_>>());
        assert_eq!(of(&[]), RateClass::Open);
        assert_eq!(of(&[0, 0]), RateClass::Open);
        assert_eq!(of(&[0, 0, 0]), RateClass::Passes);
        assert_eq!(of(&[1]), RateClass::Fails);
        assert_eq!(of(&[0, 0, 1]), RateClass::Fails);
        assert_eq!(goal.classify(&[shot(3, 0)]), RateClass::Passes);
    }

    #[test]
    fn some_trials_may_fail_with_one() {
        let goal = goal(0.01, 0.5, 4);
        let of =
            |lost: &[u64]| goal.classify(&lost.iter().map(|l| shot(1, *l)).collect::<Vec<_>>());
        // The goal accepts ten lost packets of a thousand.
        assert_eq!(of(&[10, 10]), RateClass::Passes);
        assert_eq!(of(&[11, 10]), RateClass::Open);
        assert_eq!(of(&[11, 10, 10]), RateClass::Passes);
        assert_eq!(of(&[11, 11]), RateClass::Open);
        assert_eq!(of(&[11, 11, 11]), RateClass::Fails);
    }

    #[test]
    fn short_trials_can_only_fail() {
        let goal = Goal { duration: Duration::from_secs(2), ..goal(0.0, 0.0, 2) };
        assert_eq!(goal.classify(&[shot(1, 0), shot(1, 0)]), RateClass::Open);
        assert_eq!(goal.classify(&[shot(1, 1)]), RateClass::Fails);
    }

    #[test]
    fn a_trial_without_packets_shows_nothing() {
        assert_eq!(Shot { sent: 0, ..shot(1, 0) }.loss_ratio(), 1.0);
        assert!((shot(1, 250).forwarded() - 750.0).abs() < 1e-9);
    }
}
