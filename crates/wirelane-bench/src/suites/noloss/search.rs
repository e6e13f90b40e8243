//! The highest rate that passes, by bisection (RFC 2544 section 26.1).

/// What a trial at a rate showed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Everything that was sent arrived. The rate is what was really sent.
    Passed {
        /// Packets per second.
        rate: f64,
    },
    /// Something was lost.
    Failed,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// The highest rate without loss, in packets per second as they were sent; 0 if there is none.
    pub(super) rate: f64,
    /// The receiver lost nothing of all that the sender can send: it is the sender that was measured.
    pub(super) sender_bound: bool,
}

/// A bisection between nothing and all that the sender can send.
#[derive(Clone, Debug)]
pub(super) struct Search {
    bound: f64,
    /// The highest rate that was asked for and passed, and the lowest that failed.
    passed: f64,
    failed: Option<f64>,
    /// What was really sent at the highest rate that passed.
    sent: f64,
    resolution: f64,
}

impl Search {
    /// How far below what was asked for a sender may be before it is the one that is measured.
    const SHORT: f64 = 0.95;

    /// Up to `bound` packets per second, until it is known to a share of `resolution`.
    pub(super) fn new(bound: f64, resolution: f64) -> Self {
        Self { bound, passed: 0.0, failed: None, sent: 0.0, resolution }
    }

    /// The rate to try next; `None` when it is found.
    pub(super) fn next(&self) -> Option<f64> {
        let Some(failed) = self.failed else {
            // All of it first: a receiver that takes that needs no search.
            return (self.passed < self.bound && self.bound >= 1.0).then_some(self.bound);
        };
        let is_found = failed - self.passed <= self.resolution * failed;
        // A receiver that loses at any rate loses for another reason.
        let is_hopeless = failed < self.bound / 1000.0 || failed < 2.0;
        (!is_found && !is_hopeless).then_some((self.passed + failed) / 2.0)
    }

    /// The outcome of the rate that [`Search::next`] gave.
    pub(super) fn tell(&mut self, asked: f64, verdict: Verdict) {
        match verdict {
            Verdict::Failed => self.failed = Some(asked),
            Verdict::Passed { rate } => {
                self.passed = asked;
                self.sent = self.sent.max(rate);
                if self.failed.is_some() && rate < Self::SHORT * asked {
                    // The sender does not keep up: no higher rate is to be had.
                    self.failed = Some(asked);
                    self.bound = asked;
                }
            }
        }
    }

    /// What came out.
    pub(super) fn found(&self) -> Found {
        let sender_bound = self.passed > 0.0 && self.passed >= self.bound;
        Found { rate: self.sent, sender_bound }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches for `limit` with a sender that reaches `able`; also the number of steps.
    fn search(bound: f64, limit: f64, able: f64) -> (Found, u32) {
        let mut search = Search::new(bound, 0.02);
        let mut steps = 0;
        while let Some(rate) = search.next() {
            steps += 1;
            assert!(steps < 64, "{search:?}");
            let sent = rate.min(able);
            let verdict =
                if sent <= limit { Verdict::Passed { rate: sent } } else { Verdict::Failed };
            search.tell(rate, verdict);
        }
        (search.found(), steps)
    }

    #[test]
    fn the_sender_is_found_out() {
        let sender_bound = true;
        assert_eq!(search(1e6, 2e6, 1e6), (Found { rate: 1e6, sender_bound }, 1));
        // It measured itself as faster than it is.
        assert_eq!(search(1e6, 2e6, 0.7e6), (Found { rate: 0.7e6, sender_bound }, 1));
    }

    #[test]
    fn nothing_passes() {
        let (found, steps) = search(1e6, 0.0, 1e6);
        assert_eq!(found, Found { rate: 0.0, sender_bound: false });
        assert!(steps <= 12);
        assert_eq!(search(0.0, 1.0, 1.0), (Found { rate: 0.0, sender_bound: false }, 0));
    }

    proptest! {
        #[test]
        fn the_limit_is_found(bound in 1e3_f64..1e8, share in 0.01_f64..0.99) {
            let limit = bound * share;
            let (found, steps) = search(bound, limit, bound);
            prop_assert!(!found.sender_bound);
            prop_assert!(found.rate <= limit && found.rate >= 0.97 * limit, "{found:?} {limit}");
            prop_assert!(steps <= 16);
        }
    }
}
