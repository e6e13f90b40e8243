//! A spin lock that counts its operations: one for every acquisition, one for every release, the
//! unit of the 2014 qdisc paper ("8 ns × 6 lock operations").
//!
//! The kernel's queue and transmit locks spin, too (`spin_lock(root_lock)`, `HARD_TX_LOCK`). There,
//! preemption is off while a lock is held; here a holder can lose its CPU, so a waiter yields after
//! a short spin.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::stats::LaneCounters;
use crate::sync::{AtomicBool, Ordering, thread};

/// Spins before a waiter yields.
const SPINS: u32 = if cfg!(loom) { 0 } else { 128 };

/// Waits a little: spins at first, then yields. `round` counts the calls of one wait.
#[inline]
pub(super) fn relax(round: &mut u32) {
    if *round < SPINS {
        *round += 1;
        std::hint::spin_loop();
    } else {
        thread::yield_now();
    }
}

/// The lock without its value.
#[derive(Debug)]
pub(super) struct RawLock(AtomicBool);

impl RawLock {
    pub(super) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Waits for the lock and takes it; returns the number of failed attempts.
    #[inline(always)]
    pub(super) fn lock(&self) -> u64 {
        if self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return 0;
        }
        self.lock_contended()
    }

    #[cold]
    fn lock_contended(&self) -> u64 {
        let (mut retries, mut round) = (1, 0);
        loop {
            // Reading leaves the line shared until the holder writes it.
            while self.0.load(Ordering::Relaxed) {
                relax(&mut round);
            }
            if self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return retries;
            }
            retries += 1;
        }
    }

    /// Releases the lock. Only its holder may call this.
    #[inline(always)]
    pub(super) fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// A value behind a counting lock, on separate cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct SpinLock<T> {
    raw: RawLock,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time accesses the value: through the lock, or by `get`'s contract.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub(super) fn new(value: T) -> Self {
        Self { raw: RawLock::new(), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock. Both operations are counted in `lane`.
    #[inline(always)]
    pub(super) fn lock<'a>(&'a self, lane: &'a LaneCounters) -> Guard<'a, T> {
        let retries = self.raw.lock();
        lane.locks.add(1);
        if retries > 0 {
            lane.cas_retries.add(retries);
        }
        Guard { lock: self, lane, value: PhantomData }
    }

    /// The value without the lock.
    ///
    /// # Safety
    /// No other access to the value exists during the lifetime of the reference: all users agree on
    /// another way to take turns, and none calls [`SpinLock::lock`].
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the contract makes it the only reference")]
    pub(super) unsafe fn get(&self) -> &mut T {
        // SAFETY: no other thread accesses the value, by contract.
        unsafe { &mut *self.value.get() }
    }
}

/// The held lock. Dropping it is the second operation.
pub(super) struct Guard<'a, T> {
    lock: &'a SpinLock<T>,
    lane: &'a LaneCounters,
    /// `Sync` only if the value is, like a reference to it.
    value: PhantomData<&'a mut T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.raw.unlock();
        self.lane.locks.add(1);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The guard of a value that is not `Sync` must not be `Sync`: otherwise this call is ambiguous
    /// and does not compile.
    const _: fn() = || {
        trait IsSync<Answer> {
            fn answer() {}
        }
        struct Yes;
        impl<T: ?Sized> IsSync<()> for T {}
        impl<T: ?Sized + Sync> IsSync<Yes> for T {}
        let _ = <Guard<'_, std::cell::Cell<u8>> as IsSync<_>>::answer;
    };

    #[test]
    fn every_operation_is_counted_and_no_increment_lost() {
        let (rounds, threads) = if cfg!(miri) { (20, 2) } else { (20_000, 4) };
        let lock = SpinLock::new(0_u64);
        let locks: u64 = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let lane = LaneCounters::default();
                        for _ in 0..rounds {
                            *lock.lock(&lane) += 1;
                        }
                        lane.locks.value()
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(*lock.lock(&LaneCounters::default()), rounds * threads);
        assert_eq!(locks, 2 * rounds * threads);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::{Arc, UnsafeCell};

    /// Two threads never hold the lock at once, and each sees the writes of the previous holder.
    #[test]
    fn loom_lock_excludes() {
        loom::model(|| {
            let shared = Arc::new((RawLock::new(), UnsafeCell::new(0)));
            let add = |shared: &(RawLock, UnsafeCell<u32>)| {
                shared.0.lock();
                // SAFETY: the lock is held; loom checks that.
                shared.1.with_mut(|value| unsafe { *value += 1 });
                shared.0.unlock();
            };
            let other = Arc::clone(&shared);
            let worker = thread::spawn(move || add(&other));
            add(&shared);
            worker.join().unwrap();
            // SAFETY: the other thread has ended.
            assert_eq!(shared.1.with(|value| unsafe { *value }), 2);
        });
    }
}
