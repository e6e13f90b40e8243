//! Rounds: each round measures every case once, so that a slow minute of the machine affects all of
//! them.

use std::time::{Duration, Instant};

/// The numbers of the rounds, from 1: one per sample, at least one. A later round runs only if it
/// would end before the limit when it takes as long as the longest round so far.
#[derive(Debug)]
pub(crate) struct Rounds {
    round: u32,
    last: u32,
    limit: Option<Duration>,
    begin: Instant,
    started: Instant,
    longest: Duration,
}

impl Rounds {
    pub(crate) fn new(samples: usize, limit: Option<Duration>) -> Self {
        let now = Instant::now();
        let last = u32::try_from(samples).unwrap_or(u32::MAX).max(1);
        Self { round: 0, last, limit, begin: now, started: now, longest: Duration::ZERO }
    }

    /// Whether there is time for all remaining rounds and for `more` before them.
    pub(crate) fn has_time_for(&self, more: Duration) -> bool {
        let now = Instant::now();
        let longest = self.longest.max(now.saturating_duration_since(self.started));
        let rest = longest.saturating_mul(self.last - self.round).saturating_add(more);
        self.limit.is_none_or(|limit| (now - self.begin).saturating_add(rest) <= limit)
    }

    /// Excludes `time` from the duration of this round, because other rounds do not have it.
    pub(crate) fn leave_out(&mut self, time: Duration) {
        self.started += time;
    }

    fn after(&mut self, now: Instant) -> Option<u32> {
        if self.round > 0 {
            self.longest = self.longest.max(now.saturating_duration_since(self.started));
        }
        let end = (now - self.begin).saturating_add(self.longest);
        let is_late = self.round > 0 && self.limit.is_some_and(|limit| end > limit);
        if self.round == self.last || is_late {
            return None;
        }
        (self.started, self.round) = (now, self.round + 1);
        Some(self.round)
    }
}

impl Iterator for Rounds {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.after(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_asked_and_one_at_least() {
        assert_eq!(Rounds::new(3, None).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(Rounds::new(0, None).collect::<Vec<_>>(), [1]);
        assert_eq!(Rounds::new(3, Some(Duration::ZERO)).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn none_would_end_after_the_limit() {
        let second = Duration::from_secs(1);
        let mut rounds = Rounds::new(9, Some(10 * second));
        let begin = rounds.begin;
        let mut after = |seconds| rounds.after(begin + seconds * second);
        assert_eq!((after(0), after(4), after(6)), (Some(1), Some(2), Some(3)));
        assert_eq!(after(7), None, "the longest took 4");
    }

    #[test]
    fn what_not_every_round_has_is_left_out() {
        let mut rounds = Rounds::new(3, Some(Duration::from_secs(100)));
        assert_eq!(rounds.next(), Some(1));
        assert!(rounds.has_time_for(Duration::from_secs(90)));
        assert!(!rounds.has_time_for(Duration::from_secs(101)));
        assert!(Rounds::new(3, None).has_time_for(Duration::MAX));
        let now = rounds.started;
        rounds.leave_out(Duration::from_secs(3));
        assert_eq!(rounds.after(now + Duration::from_secs(5)), Some(2));
        assert_eq!(rounds.longest, Duration::from_secs(2));
    }
}
