//! Primitives for threads: atomics (loom's under `cfg(loom)`), a padded cell, a doorbell.

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
    },
    thread,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
    },
    thread,
};

use std::ops::Deref;
#[cfg(not(loom))]
use std::time::Duration;

/// Locks `mutex`, even after a panic: data behind these locks is always consistent.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Alone on two cache lines, because the adjacent-line prefetcher of x86 loads pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// loom's `UnsafeCell` interface over the standard one, so that models run the same code.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// A counter with one writer: uses plain loads and stores instead of locked instructions.
///
/// Any thread may read it; a reading is at most one batch old.
#[derive(Debug, Default)]
pub struct Counter(std::sync::atomic::AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread may call this.
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        use std::sync::atomic::Ordering::Relaxed;
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Replaces the value. Only the owning thread may call this.
    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, std::sync::atomic::Ordering::Relaxed);
    }

    /// The value now.
    pub fn value(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// The progress of a stream in time, published after all older packets were passed on.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Watermark(std::sync::atomic::AtomicU64);

impl Watermark {
    /// All packets older than `time` have been passed on.
    #[inline(always)]
    pub(crate) fn set(&self, time: u64) {
        self.0.store(time, std::sync::atomic::Ordering::Release);
    }

    /// Packets that were passed on before this time are visible after the call.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Acquire)
    }
}

/// Lets one thread sleep until others have work for it, without a lost wake-up.
///
/// The sleeper announces itself, crosses a full barrier and looks once more; a producer publishes
/// its work, crosses a full barrier and looks for a sleeper (the 2014 qdisc paper's stop/wake
/// rule). A producer pays one fence per batch, and a system call only if the sleeper sleeps.
#[derive(Debug)]
pub(crate) struct Doorbell {
    asleep: AtomicBool,
    /// The sleep is a long one.
    #[cfg(not(loom))]
    deep: AtomicBool,
    sleeper: thread::Thread,
}

impl Doorbell {
    /// Longer sleeps are deep.
    #[cfg(not(loom))]
    const DEEP: Duration = Duration::from_millis(100);

    /// A doorbell that wakes `sleeper`.
    pub(crate) fn new(sleeper: thread::Thread) -> Self {
        Self {
            asleep: AtomicBool::new(false),
            #[cfg(not(loom))]
            deep: AtomicBool::new(false),
            sleeper,
        }
    }

    /// Wakes the sleeper, if it sleeps. Call after the work is visible.
    #[inline]
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            self.sleeper.unpark();
        }
    }

    /// Whether the sleeper will not look by itself soon. Call after the work is visible.
    #[cfg(not(loom))]
    pub(crate) fn is_deep(&self) -> bool {
        fence(Ordering::SeqCst);
        self.deep.load(Ordering::Relaxed)
    }

    /// Sleeps until the bell rings or `timeout` passes; returns at once if `ready()` reports work.
    /// Only the thread given to [`Doorbell::new`] may call this.
    pub(crate) fn sleep(
        &self,
        mut ready: impl FnMut() -> bool,
        #[cfg(not(loom))] timeout: Duration,
    ) {
        self.asleep.store(true, Ordering::Relaxed);
        #[cfg(not(loom))]
        self.deep.store(timeout > Self::DEEP, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !ready() {
            #[cfg(loom)]
            thread::park();
            #[cfg(not(loom))]
            thread::park_timeout(timeout);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }
}
