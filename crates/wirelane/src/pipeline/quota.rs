//! A limit on packets that several receiving threads share, for `-c`.
//!
//! A thread takes a portion of at most a batch, and returns the unused part when no packet arrives.
//! Without a quota, the receive loop has one more branch per batch.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of packets that may still be received. Threads take portions, so all of them together
/// receive exactly this number.
pub(super) struct Quota {
    limit: u64,
    left: AtomicU64,
    used: AtomicU64,
}

impl Quota {
    /// At most `limit` packets.
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, left: AtomicU64::new(limit), used: AtomicU64::new(0) }
    }

    /// Takes up to `wanted` of the unclaimed packets.
    fn take(&self, wanted: usize) -> usize {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left > 0).then(|| left - left.min(wanted as u64))
        });
        taken.map_or(0, |before| before.min(wanted as u64) as usize)
    }

    /// Whether all packets were received.
    fn is_used_up(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.limit
    }
}

/// A thread's unused portion of a [`Quota`]. Dropping it returns the portion.
pub(super) struct Portion {
    /// `None` without a limit.
    quota: Option<Arc<Quota>>,
    admitted: usize,
}

impl Portion {
    /// An empty portion.
    pub(super) fn of(quota: Option<&Arc<Quota>>) -> Self {
        Self { quota: quota.cloned(), admitted: 0 }
    }

    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.quota.is_some()
    }

    /// How many of `wanted` packets may be received; 0 after the quota is used up. Waits while
    /// other threads hold the rest, because they may return it.
    #[inline]
    pub(super) fn admit(&mut self, wanted: usize) -> usize {
        if self.is_limited() { self.admit_within(wanted) } else { wanted }
    }

    fn admit_within(&mut self, wanted: usize) -> usize {
        let Some(quota) = self.quota.as_ref().filter(|_| wanted > 0) else { return wanted };
        if self.admitted < wanted {
            self.admitted += quota.take(wanted - self.admitted);
        }
        // A waiting thread holds nothing, so no thread waits for another waiting thread.
        while self.admitted == 0 && !quota.is_used_up() {
            std::thread::sleep(Duration::from_micros(100));
            self.admitted = quota.take(wanted);
        }
        self.admitted.min(wanted)
    }

    /// Counts received packets.
    pub(super) fn spend(&mut self, received: usize) {
        let Some(quota) = &self.quota else { return };
        self.admitted -= received.min(self.admitted);
        quota.used.fetch_add(received as u64, Ordering::Relaxed);
    }

    /// Returns the unused portion: other threads may have traffic for it.
    #[inline]
    pub(super) fn give_back(&mut self) {
        if let Some(quota) = self.quota.as_ref().filter(|_| self.admitted > 0) {
            let unused = std::mem::take(&mut self.admitted);
            quota.left.fetch_add(unused as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_what_was_wanted_is_used_before_anybody_waits() {
        let quota = Arc::new(Quota::new(100));
        let mut one = Portion::of(Some(&quota));
        assert_eq!(one.admit(64), 64);
        one.spend(64);
        assert_eq!(one.admit(64), 36);
        one.spend(10);
        // Nothing is left that it could add, and that is no reason to wait.
        assert_eq!(one.admit(64), 26);
        let mut other = Portion::of(Some(&quota));
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

    #[test]
    fn without_a_limit_all_are_admitted() {
        let mut portion = Portion::of(None);
        portion.spend(1000);
        assert_eq!((portion.admit(64), portion.is_limited()), (64, false));
    }
}
