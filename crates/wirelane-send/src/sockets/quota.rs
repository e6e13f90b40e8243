//! A packet limit that several threads share: together they send exactly this number.
//!
//! Each thread has an equal part, so that all threads end at the same time in the schedule. A
//! thread whose source ends early returns the unused part of its portion to the other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The shared part.
struct QuotaPool {
    /// Packets that threads returned for others to send.
    left: AtomicU64,
    /// Threads that may still return packets.
    unsettled: AtomicUsize,
}

/// How many packets one thread may make.
pub(super) struct QuotaPortion {
    /// `None` without a limit.
    pool: Option<Arc<QuotaPool>>,
    own: u64,
    is_settled: bool,
}

/// Whether a thread may send a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotaAnswer {
    /// One packet.
    One,
    /// Ask again: another thread may still return packets.
    Later,
    /// No more.
    Nothing,
}

/// The portions of `limit` packets for `threads` threads; any number if `None`.
pub(super) fn portions(limit: Option<u64>, threads: usize) -> Vec<QuotaPortion> {
    let Some(limit) = limit else {
        let unlimited = || QuotaPortion { pool: None, own: 0, is_settled: true };
        return (0..threads).map(|_| unlimited()).collect();
    };
    let pool = QuotaPool { left: AtomicU64::new(0), unsettled: AtomicUsize::new(threads) };
    let (pool, all) = (Arc::new(pool), threads.max(1) as u64);
    let part = |thread: u64| limit / all + u64::from(thread < limit % all);
    let portion = |thread| QuotaPortion {
        pool: Some(Arc::clone(&pool)),
        own: part(thread as u64),
        is_settled: false,
    };
    (0..threads).map(portion).collect()
}

impl QuotaPortion {
    /// Takes one packet.
    #[inline]
    pub(super) fn take(&mut self) -> QuotaAnswer {
        if self.own > 0 {
            self.own -= 1;
            return QuotaAnswer::One;
        }
        self.take_of_others()
    }

    /// Whether no packet remains, and none can be returned later.
    #[inline]
    pub(super) fn is_spent(&mut self) -> bool {
        self.own == 0 && self.are_others_spent()
    }

    fn are_others_spent(&mut self) -> bool {
        self.settle();
        let Some(pool) = &self.pool else { return false };
        // In this order: a thread adds its rest to `left` before it counts as settled.
        let are_settled = pool.unsettled.load(Ordering::Acquire) == 0;
        are_settled && pool.left.load(Ordering::Acquire) == 0
    }

    fn take_of_others(&mut self) -> QuotaAnswer {
        let Some(pool) = self.pool.clone() else { return QuotaAnswer::One };
        self.settle();
        // In this order: a thread adds its rest to `left` before it counts as settled.
        let are_settled = pool.unsettled.load(Ordering::Acquire) == 0;
        let less = |left: u64| left.checked_sub(1);
        match pool.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
            Ok(_) => QuotaAnswer::One,
            Err(_) if are_settled => QuotaAnswer::Nothing,
            Err(_) => QuotaAnswer::Later,
        }
    }

    /// Returns the unused packets to the other threads.
    fn settle(&mut self) {
        let Some(pool) = self.pool.as_ref().filter(|_| !self.is_settled) else { return };
        pool.left.fetch_add(std::mem::take(&mut self.own), Ordering::AcqRel);
        pool.unsettled.fetch_sub(1, Ordering::AcqRel);
        self.is_settled = true;
    }
}

impl Drop for QuotaPortion {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_part_and_leaves_what_it_does_not_use() {
        let mut all = portions(Some(11), 3);
        let (mut c, mut b, mut a) = (all.pop().unwrap(), all.pop().unwrap(), all.pop().unwrap());
        let take = |portion: &mut QuotaPortion| {
            (0..20).take_while(|_| portion.take() == QuotaAnswer::One).count()
        };
        assert_eq!((take(&mut a), a.take()), (4, QuotaAnswer::Later));
        assert_eq!(b.take(), QuotaAnswer::One);
        drop(b);
        assert_eq!((take(&mut a), a.take()), (3, QuotaAnswer::Later));
        assert!(!a.is_spent() && !c.is_spent());
        assert_eq!(
            (take(&mut c), c.take(), a.take()),
            (3, QuotaAnswer::Nothing, QuotaAnswer::Nothing)
        );
        assert!(a.is_spent() && c.is_spent());
    }

    #[test]
    fn without_a_limit_there_is_no_end() {
        let mut all = portions(None, 1);
        assert!((0..1000).all(|_| all[0].take() == QuotaAnswer::One && !all[0].is_spent()));
    }
}
