//! The search for the highest rate that passes: bisection, and MLRsearch.
//!
//! A trial is void if the sender did not reach the rate: it does not count, and is repeated. If the
//! trials at a rate stay void, that rate exceeds the limit of the sender. If such a trial passes,
//! it sets the upper limit of the search. If it fails, the rate is marked, because the sender may
//! be the cause.

use std::time::Duration;

use serde::Serialize;

use super::goal::{Goal, RateClass, Shot};

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Halves the range between the passing and failing rates, with full trials only (RFC 2544,
    /// section 26.1).
    Bisection,
    /// MLRsearch: short trials narrow the range first, starting from the forwarded rate at the
    /// highest load. Only the last steps use full trials.
    Mlr,
}

/// A trial to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Packets per second.
    pub rate: f64,
    /// How long to send.
    pub duration: Duration,
}

/// The result for one goal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GoalResult {
    /// The highest rate that passed, in packets per second, as measured at the sender; 0 for none.
    pub rate: f64,
    /// The requested value of that rate; equal to `rate` if the sender never reached it.
    pub asked: f64,
    /// The received packets per second at that rate (the conditional throughput of MLRsearch).
    pub forwarded: f64,
    /// The lowest failing rate above it, in requested packets per second.
    pub failed: Option<f64>,
    /// The highest rate of the sender passed: the sender limits the result.
    pub sender_bound: bool,
    /// Trials in which the sender did not reach the rate, over all goals.
    pub void_trials: u64,
    /// The sender never reached the failing rate. The device under test may forward more than this
    /// result.
    pub sender_late: bool,
    /// The result has the precision of the goal; false if the search ended early.
    pub complete: bool,
}

/// The search for the highest rate that passes, for one goal or several at once.
#[derive(Clone, Debug)]
pub struct RateSearch {
    goals: Vec<Goal>,
    method: Method,
    min: f64,
    max: f64,
    /// Sorted by requested rate, ascending.
    tried: Vec<Tried>,
    /// The index of the current goal, and the number of phases before its final one.
    at: (usize, u32),
    /// The number of outward steps in this phase. Each step doubles the previous one.
    outward: u32,
    /// A void trial to repeat.
    again: Option<Probe>,
}

#[derive(Clone, Debug)]
struct Tried {
    rate: f64,
    shots: Vec<Shot>,
    /// Void trials: the sender did not reach the rate.
    void: u32,
    /// A void trial counts as a failure.
    is_late: bool,
}

impl RateSearch {
    /// The limits of the tolerated shortfall of the sender, as a share. Between them it is the
    /// width of the goal.
    const SHORT: (f64, f64) = (0.001, 0.05);
    /// The void trials at one rate after which a trial counts.
    const ATTEMPTS: u32 = 3;
    /// Phases of MLRsearch before the final phase of a goal. Each has half the duration and twice
    /// the width of the next.
    const PHASES: u32 = 3;
    /// The most trials at one rate. A rate that is still undecided then fails.
    const MOST_SHOTS: usize = 1000;

    /// A search between `max` packets per second, the limit of the sender, and a thousandth of it.
    pub fn new(max: f64, goals: Vec<Goal>, method: Method) -> Self {
        let phases = if method == Method::Mlr { Self::PHASES } else { 0 };
        Self {
            goals,
            method,
            min: (max / 1000.0).max(2.0),
            max,
            tried: Vec::new(),
            at: (0, phases),
            outward: 0,
            again: None,
        }
    }

    /// The next trial to run; `None` when the search is complete.
    pub fn probe(&mut self) -> Option<Probe> {
        if let Some(again) = self.again.take() {
            return Some(again);
        }
        loop {
            let goal = self.goal()?;
            if let Some(rate) = self.candidate(&goal) {
                return Some(Probe { rate, duration: goal.duration });
            }
            self.outward = 0;
            self.at = match self.at {
                (position, 0) => (position + 1, 0),
                (position, phases) => (position, phases - 1),
            };
        }
    }

    /// Reports the result of the trial that [`RateSearch::probe`] returned.
    pub fn tell(&mut self, probe: Probe, shot: Shot) {
        let position = match self.tried.binary_search_by(|one| one.rate.total_cmp(&probe.rate)) {
            Ok(position) => position,
            Err(position) => {
                let tried = Tried { rate: probe.rate, shots: Vec::new(), void: 0, is_late: false };
                self.tried.insert(position, tried);
                position
            }
        };
        let goal = self.goal();
        let tried = &mut self.tried[position];
        let is_good = goal.is_some_and(|goal| shot.loss_ratio() <= goal.loss_ratio);
        let (least, most) = Self::SHORT;
        let bearable = goal.map_or(most, |goal| goal.width.clamp(least, most));
        if shot.rate < (1.0 - bearable) * probe.rate {
            // A random delay may have caused the shortfall.
            tried.void += 1;
            if tried.void < Self::ATTEMPTS {
                self.again = Some(probe);
                return;
            }
            if is_good {
                // The sender cannot reach a higher rate.
                self.max = self.max.min(probe.rate);
            } else {
                tried.is_late = true;
            }
        }
        tried.shots.push(shot);
    }

    /// The result for each goal, possibly preliminary.
    pub fn found(&self) -> Vec<GoalResult> {
        let void_trials = self.tried.iter().map(|one| u64::from(one.void)).sum();
        let found = |(position, goal): (usize, &Goal)| {
            let (lower, upper) = self.bounds(goal);
            let failed = upper.map(|upper| upper.rate);
            let sender_late = upper.is_some_and(|upper| upper.is_late);
            let complete = self.at.0 > position;
            let known =
                GoalResult { failed, complete, void_trials, sender_late, ..GoalResult::default() };
            let Some(lower) = lower else { return known };
            let sender_bound = lower.rate >= self.max;
            let full = lower.shots.iter().filter(|shot| shot.duration >= goal.duration);
            let passed: Vec<_> = full.filter(|shot| shot.loss_ratio() <= goal.loss_ratio).collect();
            let mean = |of: fn(&Shot) -> f64| {
                passed.iter().map(|shot| of(shot)).sum::<f64>() / passed.len().max(1) as f64
            };
            let (rate, forwarded) = (mean(|shot| shot.rate), mean(Shot::forwarded));
            let asked = if lower.void < Self::ATTEMPTS { lower.rate } else { rate };
            GoalResult { rate, asked, forwarded, sender_bound, ..known }
        };
        self.goals.iter().enumerate().map(found).collect()
    }

    /// The goal of the current phase.
    fn goal(&self) -> Option<Goal> {
        self.goal_at(self.at)
    }

    fn goal_at(&self, (position, phases): (usize, u32)) -> Option<Goal> {
        let goal = *self.goals.get(position)?;
        if phases == 0 {
            return Some(goal);
        }
        let scale = f64::from(1 << phases);
        let duration = goal.duration.div_f64(scale);
        // One trial decides in early phases.
        Some(Goal { duration, duration_sum: duration, width: goal.width * scale, ..goal })
    }

    /// The highest rate that passes `goal` below the lowest failing rate, and the lowest failing
    /// rate.
    fn bounds(&self, goal: &Goal) -> (Option<&Tried>, Option<&Tried>) {
        let class = |one: &&Tried| self.class(goal, one);
        let upper = self.tried.iter().find(|one| class(one) == RateClass::Fails);
        let below = self.tried.iter().rev().filter(|one| upper.is_none_or(|u| one.rate < u.rate));
        let lower = below.into_iter().find(|one| class(one) == RateClass::Passes);
        (lower, upper)
    }

    fn class(&self, goal: &Goal, one: &Tried) -> RateClass {
        match goal.classify(&one.shots) {
            RateClass::Open if one.shots.len() >= Self::MOST_SHOTS => RateClass::Fails,
            class => class,
        }
    }

    /// The next rate of this phase; `None` when the phase is complete.
    fn candidate(&mut self, goal: &Goal) -> Option<f64> {
        if self.max < 1.0 {
            return None;
        }
        let (lower, upper) = self.bounds(goal);
        let (lower, upper) = (lower.map(|one| one.rate), upper.map(|one| one.rate));
        let is_between = |rate: f64| {
            lower.is_none_or(|lower| rate > lower) && upper.is_none_or(|upper| rate < upper)
        };
        // First completes a rate that already has full trials.
        let begun = self.tried.iter().rev().find(|one| {
            let has_full = one.shots.iter().any(|shot| shot.duration >= goal.duration);
            has_full && is_between(one.rate) && self.class(goal, one) == RateClass::Open
        });
        if let Some(begun) = begun {
            return Some(begun.rate);
        }
        match (lower, upper) {
            // The highest rate of the sender passes.
            (Some(lower), _) if lower >= self.max => None,
            (Some(lower), Some(upper)) => {
                let is_found = upper - lower <= goal.width * upper;
                (!is_found).then_some(self.between(lower, upper))
            }
            (None, None) => Some(self.begin()),
            (Some(lower), None) => Some(self.above(lower, goal)),
            // Loss at the lowest rate has another cause than the rate.
            (None, Some(upper)) if upper <= self.min => None,
            (None, Some(upper)) => Some(self.below(upper, goal)),
        }
    }

    fn between(&self, lower: f64, upper: f64) -> f64 {
        let middle = (lower + upper) / 2.0;
        if self.method == Method::Bisection {
            return middle;
        }
        // Prefers a rate that already has trials of an earlier phase or goal, if it is not too
        // close to a bound.
        let quarter = (upper - lower) / 4.0;
        let known = self.tried.iter().map(|one| one.rate);
        let known = known.filter(|rate| (rate - middle).abs() <= quarter);
        known.min_by(|a, b| (a - middle).abs().total_cmp(&(b - middle).abs())).unwrap_or(middle)
    }

    /// The first rate of a phase: the highest rate, or a bound from the previous phase.
    fn begin(&self) -> f64 {
        let before = self.before();
        let (lower, upper) = before.map_or((None, None), |goal| self.bounds(&goal));
        match (lower, upper) {
            (Some(lower), _) => lower.rate,
            (None, Some(upper)) => upper.rate,
            (None, None) => self.max,
        }
    }

    fn above(&mut self, lower: f64, goal: &Goal) -> f64 {
        let failed_before = self.before().and_then(|goal| Some(self.bounds(&goal).1?.rate));
        if let Some(rate) = failed_before.filter(|rate| *rate > lower && self.outward == 0) {
            self.outward = 1;
            return rate;
        }
        if self.method == Method::Bisection {
            return self.max;
        }
        let step = goal.width * f64::from(1u32 << self.outward.min(20));
        self.outward += 1;
        (lower * (1.0 + step)).min(self.max)
    }

    fn below(&mut self, upper: f64, goal: &Goal) -> f64 {
        if self.method == Method::Bisection {
            return (upper / 2.0).max(self.min);
        }
        let passed_before = self.before().and_then(|goal| Some(self.bounds(&goal).0?.rate));
        if let Some(rate) = passed_before.filter(|rate| *rate < upper && self.outward == 0) {
            return rate;
        }
        // Tries a little less than the forwarded rate of the failed trial, as buffers let some
        // extra packets through.
        let through = self.tried.iter().find(|one| one.rate == upper);
        let through = through.and_then(|one| one.shots.last()).map(Shot::forwarded);
        let step = goal.width * f64::from(1u32 << self.outward.min(20));
        self.outward += 1;
        let stepped = (upper * (1.0 - step.min(0.5))).max(self.min);
        let through = through.filter(|rate| *rate < stepped && *rate > self.min);
        through.map_or(stepped, |rate| (rate * (1.0 - goal.width)).max(self.min))
    }

    /// The goal of the previous phase. The first phase of a later goal follows the final phase of
    /// the goal before it.
    fn before(&self) -> Option<Goal> {
        match (self.method, self.at) {
            (Method::Bisection, _) => None,
            (_, (0, phases)) => self.goal_at((0, phases + 1)).filter(|_| phases < Self::PHASES),
            (_, (position, _)) => self.goal_at((position - 1, 0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn goal(loss_ratio: f64, width: f64) -> Goal {
        Goal { loss_ratio, exceed_ratio: 0.0, duration: SECOND, duration_sum: SECOND, width }
    }

    /// A simulated device: forwards `limit` packets per second, plus `buffer` packets per trial.
    struct Bottleneck {
        limit: f64,
        buffer: f64,
        able: f64,
    }

    /// Searches with a sender that reaches `able`. Returns the result, the number of trials, and
    /// their total seconds.
    fn search(mut search: RateSearch, path: &Bottleneck) -> (Vec<GoalResult>, u32, f64) {
        let (mut trials, mut seconds) = (0, 0.0);
        while let Some(probe) = search.probe() {
            trials += 1;
            assert!(trials < 200, "{search:?}");
            assert!(probe.rate > 0.0 && probe.rate <= search.max, "{probe:?}");
            seconds += probe.duration.as_secs_f64();
            let rate = probe.rate.min(path.able);
            let sent = rate * probe.duration.as_secs_f64();
            let through = path.limit * probe.duration.as_secs_f64() + path.buffer;
            let lost = (sent - through).max(0.0).ceil() as u64;
            let shot = Shot { duration: probe.duration, sent: sent.ceil() as u64, lost, rate };
            search.tell(probe, shot);
        }
        (search.found(), trials, seconds)
    }

    fn bottleneck(limit: f64) -> Bottleneck {
        Bottleneck { limit, buffer: 0.0, able: f64::INFINITY }
    }

    const BOTH: [Method; 2] = [Method::Bisection, Method::Mlr];

    #[test]
    fn the_sender_is_found_out() {
        for method in BOTH {
            let new = || RateSearch::new(1e6, vec![goal(0.0, 0.02)], method);
            let (found, trials, _) = search(new(), &bottleneck(2e6));
            assert!(found[0].sender_bound && found[0].rate == 1e6, "{found:?}");
            assert_eq!(found[0].asked, 1e6);
            assert!(trials <= 6, "{trials}");
            // The initial measurement overestimated the sender.
            let path = Bottleneck { able: 0.7e6, ..bottleneck(2e6) };
            let (found, _, _) = search(new(), &path);
            assert!(found[0].sender_bound && found[0].rate == 0.7e6, "{found:?}");
            assert_eq!(found[0].asked, 0.7e6);
        }
    }

    /// Searches up to 8/3 of the passing rate. In trials for which `is_held_up` is true, the sender
    /// reaches 90 % of the rate, and a packet is lost.
    fn held_up(method: Method, mut is_held_up: impl FnMut(f64, u32) -> bool) -> (GoalResult, u32) {
        let mut search = RateSearch::new(8e5, vec![goal(0.0, 0.01)], method);
        let mut trials = 0;
        while let Some(probe) = search.probe() {
            trials += 1;
            assert!(trials < 200, "{search:?}");
            let is_late = is_held_up(probe.rate, trials);
            let rate = if is_late { 0.9 * probe.rate } else { probe.rate };
            let sent = (rate * probe.duration.as_secs_f64()).ceil() as u64;
            let lost = if is_late { 1 } else { (rate > 3e5).into() };
            search.tell(probe, Shot { duration: probe.duration, sent, lost, rate });
        }
        (search.found()[0], trials)
    }

    #[test]
    fn a_trial_of_a_sender_that_was_held_up_is_made_again() {
        for method in BOTH {
            let (undisturbed, trials) = held_up(method, |_, _| false);
            assert!(undisturbed.rate > 2.97e5 && undisturbed.rate <= 3e5, "{undisturbed:?}");
            assert_eq!((undisturbed.void_trials, undisturbed.sender_late), (0, false));
            // Every other trial is delayed.
            let (found, again) = held_up(method, |_, trial| trial % 2 == 1);
            assert_eq!(u64::from(again - trials), found.void_trials);
            assert_eq!(GoalResult { void_trials: 0, ..found }, undisturbed);
        }
    }

    #[test]
    fn a_sender_that_is_always_held_up_is_told_of() {
        for method in BOTH {
            let (found, _) = held_up(method, |rate, _| rate > 2e5);
            assert!(found.rate > 1.97e5 && found.rate <= 2e5, "{found:?}");
            assert!(found.sender_late && found.void_trials >= 3, "{found:?}");
        }
    }

    #[test]
    fn nothing_passes() {
        for method in BOTH {
            let (found, trials, _) =
                search(RateSearch::new(1e6, vec![goal(0.0, 0.02)], method), &bottleneck(0.0));
            assert!(found[0].rate == 0.0 && !found[0].sender_bound, "{found:?}");
            assert!(trials <= 40, "{trials}");
            let (found, trials, _) =
                search(RateSearch::new(0.0, vec![goal(0.0, 0.02)], method), &bottleneck(1.0));
            assert!(found[0].rate == 0.0 && trials == 0, "{found:?}");
        }
    }

    #[test]
    fn several_goals_share_their_trials() {
        let goals = vec![goal(0.0, 0.01), goal(0.005, 0.01)];
        let (found, trials, _) = search(RateSearch::new(1e6, goals, Method::Mlr), &bottleneck(3e5));
        assert!((found[0].rate / 3e5 - 1.0).abs() < 0.011, "{found:?}");
        // At this higher rate, half a percent is lost.
        assert!((found[1].rate / (3e5 / 0.995) - 1.0).abs() < 0.011, "{found:?}");
        assert!(trials < 40, "{trials}");
    }

    #[test]
    fn the_faster_search_is_faster() {
        let seconds = |method| {
            search(RateSearch::new(1e7, vec![goal(0.0, 0.005)], method), &bottleneck(1.2e6)).2
        };
        let [bisection, mlr] = BOTH.map(seconds);
        assert!(mlr < 0.7 * bisection, "{mlr} {bisection}");
    }

    proptest! {
        #[test]
        fn the_limit_is_found(
            max in 1e4_f64..1e8, share in 0.01_f64..0.99, buffer in 0.0_f64..0.01, mlr: bool,
        ) {
            let limit = max * share;
            let path = Bottleneck { buffer: limit * buffer, ..bottleneck(limit) };
            let method = BOTH[usize::from(mlr)];
            let (found, trials, _) =
                search(RateSearch::new(max, vec![goal(0.0, 0.02)], method), &path);
            let found = found[0];
            prop_assert!(!found.sender_bound && found.complete);
            let most = limit * (1.0 + buffer) + 1.0;
            prop_assert!(found.rate <= most && found.rate >= 0.975 * most, "{:?} {}", found, most);
            prop_assert!(trials <= 60, "{}", trials);
        }

        #[test]
        fn chance_does_not_keep_it_from_ending(seed: u64, exceed in 0.0_f64..0.9) {
            let goal = Goal { exceed_ratio: exceed, duration_sum: 4 * SECOND, ..goal(0.0, 0.02) };
            let mut search = RateSearch::new(1e6, vec![goal], Method::Mlr);
            let mut state = seed | 1;
            for trials in 0.. {
                prop_assert!(trials < 2000);
                let Some(probe) = search.probe() else { break };
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let lost = state % 2;
                let shot = Shot { duration: probe.duration, sent: 100, lost, rate: probe.rate };
                search.tell(probe, shot);
            }
        }
    }
}
