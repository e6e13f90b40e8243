//! A number of packets that several threads share: exactly so many are made by all together.
//!
//! Each thread has an equal part, so that all of them end at the same time in the schedule. One
//! whose packets end before its part is used leaves the rest to the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What the threads share.
struct Pool {
    /// What threads have left to the others.
    left: AtomicU64,
    /// Threads that may still leave something.
    unsettled: AtomicUsize,
}

/// What one thread may make.
pub(super) struct Allowance {
    /// `None` without a limit.
    pool: Option<Arc<Pool>>,
    own: u64,
    is_settled: bool,
}

/// Whether a packet may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It may.
    One,
    /// Not before it is known whether another thread leaves something.
    Later,
    /// No more.
    Nothing,
}

/// The allowances of so many threads for `limit` packets; any number if `None`.
pub(super) fn allowances(limit: Option<u64>, threads: usize) -> Vec<Allowance> {
    let Some(limit) = limit else {
        let unlimited = || Allowance { pool: None, own: 0, is_settled: true };
        return (0..threads).map(|_| unlimited()).collect();
    };
    let pool = Pool { left: AtomicU64::new(0), unsettled: AtomicUsize::new(threads) };
    let (pool, all) = (Arc::new(pool), threads.max(1) as u64);
    let part = |thread: u64| limit / all + u64::from(thread < limit % all);
    let allowance = |thread| Allowance {
        pool: Some(Arc::clone(&pool)),
        own: part(thread as u64),
        is_settled: false,
    };
    (0..threads).map(allowance).collect()
}

impl Allowance {
    /// Takes one packet.
    #[inline]
    pub(super) fn take(&mut self) -> Taken {
        if self.own > 0 {
            self.own -= 1;
            return Taken::One;
        }
        self.take_of_others()
    }

    /// Whether no more packets remain, now and later.
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

    fn take_of_others(&mut self) -> Taken {
        let Some(pool) = self.pool.clone() else { return Taken::One };
        self.settle();
        // In this order: a thread adds its rest to `left` before it counts as settled.
        let are_settled = pool.unsettled.load(Ordering::Acquire) == 0;
        let less = |left: u64| left.checked_sub(1);
        match pool.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
            Ok(_) => Taken::One,
            Err(_) if are_settled => Taken::Nothing,
            Err(_) => Taken::Later,
        }
    }

    /// Leaves what is not used to the others.
    fn settle(&mut self) {
        let Some(pool) = self.pool.as_ref().filter(|_| !self.is_settled) else { return };
        pool.left.fetch_add(std::mem::take(&mut self.own), Ordering::AcqRel);
        pool.unsettled.fetch_sub(1, Ordering::AcqRel);
        self.is_settled = true;
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_part_and_leaves_what_it_does_not_use() {
        let mut all = allowances(Some(11), 3);
        let (mut c, mut b, mut a) = (all.pop().unwrap(), all.pop().unwrap(), all.pop().unwrap());
        let take = |allowance: &mut Allowance| {
            (0..20).take_while(|_| allowance.take() == Taken::One).count()
        };
        assert_eq!((take(&mut a), a.take()), (4, Taken::Later));
        assert_eq!(b.take(), Taken::One);
        drop(b);
        assert_eq!((take(&mut a), a.take()), (3, Taken::Later));
        assert!(!a.is_spent() && !c.is_spent());
        assert_eq!((take(&mut c), c.take(), a.take()), (3, Taken::Nothing, Taken::Nothing));
        assert!(a.is_spent() && c.is_spent());
    }

    #[test]
    fn without_a_limit_there_is_no_end() {
        let mut all = allowances(None, 1);
        assert!((0..1000).all(|_| all[0].take() == Taken::One && !all[0].is_spent()));
    }
}
