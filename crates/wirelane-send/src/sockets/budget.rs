//! A number of packets that several threads share.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many packets may still be made: exactly so many, by all threads together.
pub(super) struct Budget(Option<AtomicU64>);

impl Budget {
    /// At most `limit` packets; any number if `None`.
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self(limit.map(AtomicU64::new))
    }

    /// Takes one; false if there is none left.
    #[inline]
    pub(super) fn take(&self) -> bool {
        let Some(left) = &self.0 else { return true };
        let less = |left: u64| left.checked_sub(1);
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_so_many_are_taken() {
        let budget = Budget::new(Some(3));
        assert_eq!((0..9).filter(|_| budget.take()).count(), 3);
        assert!((0..9).all(|_| Budget::new(None).take()));
    }
}
