//! Signals between the threads of a forwarder and the thread that started them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use wirelane_os::clock;

/// Signals between the threads and the thread that started them.
#[derive(Default)]
pub(super) struct Signals {
    /// The end was requested: waits are limited.
    pub(super) stopping: AtomicBool,
    /// A thread has failed, or every finite source is exhausted.
    pub(super) done: AtomicBool,
    /// Number of threads whose finite source is not exhausted.
    pub(super) finite: AtomicUsize,
    /// When to stop waiting for a slow interface, on the monotonic clock; 0 for never.
    pub(super) deadline: AtomicU64,
}

impl Signals {
    /// Whether it is time to count the remaining frames and end.
    pub(super) fn is_late(&self) -> bool {
        let deadline = self.deadline.load(Ordering::Acquire);
        deadline > 0 && clock::monotonic_ns() >= deadline
    }
}
