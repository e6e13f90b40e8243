//! A number of packets that several receiving threads share, for `-c`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many packets may still be received. Threads take portions, so exactly this number is
/// received, not a batch more.
pub struct Budget {
    limit: u64,
    left: AtomicU64,
    used: AtomicU64,
}

impl Budget {
    /// At most `limit` packets; any number if `None`.
    pub fn new(limit: Option<u64>) -> Self {
        let limit = limit.unwrap_or(u64::MAX);
        Self { limit, left: AtomicU64::new(limit), used: AtomicU64::new(0) }
    }

    /// Takes up to `wanted` of the unclaimed packets.
    #[inline]
    fn take(&self, wanted: usize) -> usize {
        if self.limit == u64::MAX {
            return wanted;
        }
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left > 0).then(|| left - left.min(wanted as u64))
        });
        taken.map_or(0, |before| before.min(wanted as u64) as usize)
    }

    /// Returns an unused portion.
    fn give_back(&self, unused: usize) {
        if self.limit != u64::MAX && unused > 0 {
            self.left.fetch_add(unused as u64, Ordering::Relaxed);
        }
    }

    /// Uses a portion.
    #[inline]
    fn spend(&self, used: usize) {
        if self.limit != u64::MAX {
            self.used.fetch_add(used as u64, Ordering::Relaxed);
        }
    }

    /// Whether all is used.
    fn is_spent(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.limit
    }
}

/// A thread's unused portion of a [`Budget`]. Dropping it returns the portion.
pub struct Allowance {
    budget: Arc<Budget>,
    admitted: usize,
}

impl Allowance {
    /// Nothing yet.
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self { budget: Arc::clone(budget), admitted: 0 }
    }

    /// How many of `wanted` packets may be received; 0 once the budget is used. Waits while other
    /// threads hold the rest, because they may return it.
    #[inline]
    pub fn admit(&mut self, wanted: usize) -> usize {
        if self.admitted < wanted {
            self.admitted += self.budget.take(wanted - self.admitted);
        }
        // Who waits holds nothing, so that nobody waits for another one who waits.
        while self.admitted == 0 && !self.budget.is_spent() {
            std::thread::sleep(Duration::from_micros(100));
            self.admitted = self.budget.take(wanted);
        }
        self.admitted.min(wanted)
    }

    /// `received` packets came.
    #[inline]
    pub fn spend(&mut self, received: usize) {
        self.admitted -= received.min(self.admitted);
        self.budget.spend(received);
    }

    /// Returns the unused portion to other threads.
    pub fn give_back(&mut self) {
        self.budget.give_back(std::mem::take(&mut self.admitted));
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_what_was_wanted_is_used_before_anybody_waits() {
        let budget = Arc::new(Budget::new(Some(100)));
        let mut one = Allowance::new(&budget);
        assert_eq!(one.admit(64), 64);
        one.spend(64);
        assert_eq!(one.admit(64), 36);
        one.spend(10);
        // Nothing is left that it could add, and that is no reason to wait.
        assert_eq!(one.admit(64), 26);
        let mut other = Allowance::new(&budget);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| other.admit(64));
            one.spend(6);
            one.give_back();
            assert_eq!(other.join().unwrap(), 20);
        });
        drop(one);
        other.spend(20);
        assert_eq!(other.admit(64), 0);
    }
}
