//! What the threads of a forwarder and whoever started them tell each other.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use wirelane_os::clock;

/// What the threads and whoever started them tell each other.
#[derive(Default)]
pub(super) struct Signals {
    /// Packets come to their end: no more endless waiting.
    pub(super) stopping: AtomicBool,
    /// A thread has given up, or all that come to an end by themselves have.
    pub(super) done: AtomicBool,
    /// Threads left whose source comes to an end by itself.
    pub(super) finite: AtomicUsize,
    /// Monotonic clock at which nobody waits for a slow interface any more; 0 for never.
    pub(super) deadline: AtomicU64,
}

impl Signals {
    /// Whether it is time to count what has not left, and to go.
    pub(super) fn is_late(&self) -> bool {
        let deadline = self.deadline.load(Ordering::Acquire);
        deadline > 0 && clock::monotonic_ns() >= deadline
    }
}
