//! When to say again how far a thread has come: a merge holds a packet until every receiving end
//! promises that no older one follows.
//!
//! Where packets are wanted at once, the thread that receives from all ends looks again soon after
//! a packet, and wakes the writer once that packet may leave. Without packets it sleeps.

use std::time::Duration;

/// The shortest sleep until the ends may promise enough.
const SOON: Duration = Duration::from_micros(50);

/// The announcements that a thread owes.
pub(super) struct Promise {
    /// Packets up to this time may leave, and the writer was told.
    told: u64,
    /// Packets wait for a chunk to be handed over, or for a promise.
    is_awaited: bool,
    soon: Duration,
}

impl Promise {
    /// Of ends that are `lateness` nanoseconds behind at most.
    pub(super) fn new(lateness: u64) -> Self {
        let soon = Duration::from_nanos(lateness / 4).max(SOON);
        Self { told: 0, is_awaited: false, soon }
    }

    /// After a round: all ends have promised `horizon`, packets up to `newest` were handed over,
    /// and there are more if `has_more`. Whether to wake the writer.
    pub(super) fn follow(&mut self, horizon: u64, newest: u64, has_more: bool) -> bool {
        let is_kept = newest > self.told && horizon >= newest;
        if is_kept {
            self.told = newest;
        }
        self.is_awaited = has_more || newest > self.told;
        is_kept
    }

    /// How long the thread may sleep.
    pub(super) fn longest_sleep(&self) -> Option<Duration> {
        self.is_awaited.then_some(self.soon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_awaited_until_all_may_leave() {
        let mut promise = Promise::new(0);
        assert!(!promise.follow(5, 0, false) && promise.longest_sleep().is_none());
        assert!(!promise.follow(6, 0, true) && promise.longest_sleep() == Some(SOON));
        assert!(!promise.follow(7, 8, false) && promise.longest_sleep() == Some(SOON));
        assert!(promise.follow(8, 8, false) && promise.longest_sleep().is_none());
        assert!(!promise.follow(9, 8, false) && promise.longest_sleep().is_none());
    }
}
