//! When to announce again how far a thread has advanced: a merge holds a packet until every
//! receiving end promises that no older one follows.
//!
//! For immediate delivery, the thread that receives from all ends checks again soon after a packet,
//! and wakes the writer when that packet may leave. Without packets it sleeps.

use std::time::Duration;

/// The shortest sleep until the ends may promise enough; ending a sleep takes the system as long.
const SOON: Duration = Duration::from_micros(50);
/// How often a thread checks again without a sleep, if the ends may promise enough sooner.
const LOOKS: u32 = 64;

/// The announcements that a thread owes.
pub(super) struct Promise {
    /// The writer was notified that packets up to this time may leave.
    told: u64,
    /// Packets wait for their chunk to be handed over, or for a promise.
    is_awaited: bool,
    soon: Duration,
    /// Checks since packets wait.
    looks: u32,
    /// The ends promise enough sooner than a sleep ends.
    is_soon: bool,
}

impl Promise {
    /// For ends that are at most `lateness` nanoseconds behind.
    pub(super) fn new(lateness: u64) -> Self {
        let lateness = Duration::from_nanos(lateness);
        let (soon, is_soon) = ((lateness / 4).max(SOON), lateness < SOON);
        Self { told: 0, is_awaited: false, soon, looks: 0, is_soon }
    }

    /// Called after a round: all ends have promised `horizon`, packets up to `newest` were handed
    /// over, and there are more if `has_more`. Returns whether to wake the writer.
    pub(super) fn follow(&mut self, horizon: u64, newest: u64, has_more: bool) -> bool {
        let is_kept = newest > self.told && horizon >= newest;
        if is_kept {
            self.told = newest;
        }
        self.is_awaited = has_more || newest > self.told;
        self.looks = if self.is_awaited { self.looks + 1 } else { 0 };
        is_kept
    }

    /// How long the thread may sleep.
    pub(super) fn longest_sleep(&self) -> Option<Duration> {
        let looks = self.is_soon && self.looks < LOOKS;
        self.is_awaited.then_some(if looks { Duration::ZERO } else { self.soon })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_awaited_until_all_may_leave() {
        let mut promise = Promise::new(50_000);
        assert!(!promise.follow(5, 0, false) && promise.longest_sleep().is_none());
        assert!(!promise.follow(6, 0, true) && promise.longest_sleep() == Some(SOON));
        assert!(!promise.follow(7, 8, false) && promise.longest_sleep() == Some(SOON));
        assert!(promise.follow(8, 8, false) && promise.longest_sleep().is_none());
        assert!(!promise.follow(9, 8, false) && promise.longest_sleep().is_none());
    }

    #[test]
    fn ends_that_are_less_late_than_a_sleep_are_asked_without_one_for_a_while() {
        let mut promise = Promise::new(20_000);
        assert!(!promise.follow(6, 8, false) && promise.longest_sleep() == Some(Duration::ZERO));
        (0..LOOKS).for_each(|_| assert!(!promise.follow(7, 8, false)));
        assert_eq!(promise.longest_sleep(), Some(SOON));
        assert!(promise.follow(8, 8, false) && promise.longest_sleep().is_none());
        assert!(!promise.follow(8, 9, false) && promise.longest_sleep() == Some(Duration::ZERO));
    }
}
