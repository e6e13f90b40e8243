//! How `pcap_breakloop` reaches the thread that reads.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use wirelane_os::event::Event;

/// Any thread or signal handler raises it; the thread that reads takes it.
///
/// A thread that waits polls [`Breaker::descriptor`] beside the rings. It may become readable
/// without [`Breaker::is_raised`], or stay so after [`Breaker::take`]: then [`Breaker::quiet`] it.
#[derive(Debug)]
pub(crate) struct Breaker {
    raised: AtomicBool,
    /// `None` if the process had no descriptor left: a waiting thread then notices late.
    event: Option<Event>,
}

impl Breaker {
    pub(crate) fn new() -> Self {
        Self { raised: AtomicBool::new(false), event: Event::new().ok() }
    }

    /// Ends the running loop, or else the next one. Takes no lock and preserves errno.
    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        if let Some(event) = &self.event {
            event.happen();
        }
    }

    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Clears it, and returns whether it was raised.
    pub(crate) fn take(&self) -> bool {
        if !self.raised.swap(false, Ordering::AcqRel) {
            return false;
        }
        self.quiet();
        true
    }

    /// Makes the descriptor unreadable.
    pub(crate) fn quiet(&self) {
        if let Some(event) = &self.event {
            event.clear();
        }
    }

    /// Readable after [`Breaker::raise`].
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.event.as_ref().map(Event::as_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn is_taken_once_and_wakes() {
        let breaker = Breaker::new();
        let event = breaker.event.as_ref().unwrap();
        assert!(!breaker.take() && !event.wait(Duration::ZERO));
        breaker.raise();
        breaker.raise();
        assert!(breaker.is_raised() && event.wait(Duration::ZERO));
        assert!(breaker.take() && !breaker.is_raised());
        assert!(!breaker.take() && !event.wait(Duration::ZERO));
    }
}
