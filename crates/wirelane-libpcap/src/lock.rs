//! A lock that knows its owner thread.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Guards a value that one thread at a time uses. Threads hold it for short times, and never while
/// a callback runs or a thread waits. If a signal handler calls a function with the handle that it
/// interrupted (tcpdump prints its statistics in one), the call fails; a mutex would deadlock.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    /// `pthread_self()` of the thread that holds it; 0 if none does.
    owner: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time refers to the value: see `with`.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { owner: AtomicUsize::new(0), value: UnsafeCell::new(value) }
    }

    /// Waits for other threads, then runs `body` on the value. `None` if this thread holds the
    /// lock.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        let me = current();
        let mut attempts = 0_u32;
        while let Err(owner) =
            self.owner.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed)
        {
            if owner == me {
                return None;
            }
            attempts = attempts.saturating_add(1);
            match attempts {
                0..100 => std::hint::spin_loop(),
                100..200 => thread::yield_now(),
                _ => thread::sleep(PAUSE),
            }
        }
        let _release = Release(&self.owner);
        // SAFETY: the owner is this thread, which was not before: so there is no other reference.
        Some(body(unsafe { &mut *self.value.get() }))
    }
}

/// The time between attempts, while another thread opens a port.
const PAUSE: Duration = Duration::from_micros(100);

/// Releases the lock, also when `body` panics.
struct Release<'a>(&'a AtomicUsize);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// A non-zero number of this thread.
fn current() -> usize {
    // SAFETY: takes nothing and cannot fail. The C library's threads are pointers.
    unsafe { libc::pthread_self() as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_turns() {
        let lock = Lock::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| lock.with(|n| *n += 1).unwrap()));
            }
        });
        assert_eq!(lock.with(|n| *n), Some(40_000));
    }

    #[test]
    fn who_has_it_is_refused_and_a_panic_gives_it_back() {
        let lock = Lock::new(1);
        assert_eq!(lock.with(|_| lock.with(|n| *n)), Some(None));
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            lock.with(|_| panic!("on purpose"))
        }));
        assert!(panic.is_err());
        assert_eq!(lock.with(|n| *n), Some(1));
    }
}
