//! An event that wakes threads in `poll`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::time::Timespec;

use crate::error::{OsError, Result};

/// A descriptor (eventfd) that becomes readable when the event happens, and stays readable until it
/// is cleared.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// An event that has not happened.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn new() -> Result<Self> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(Self)
            .map_err(|errno| OsError::new("eventfd", "", errno))
    }

    /// Waits until the event happens, at most `timeout`; true if it has happened.
    pub fn wait(&self, timeout: Duration) -> bool {
        let since = Instant::now();
        loop {
            let left = timeout.saturating_sub(since.elapsed());
            let time = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], time.as_ref()) {
                Ok(ready) if ready > 0 => return true,
                // A signal, or an early return.
                _ if since.elapsed() < timeout => {}
                _ => return false,
            }
        }
    }

    /// Signals the event, from any thread. Repeated calls have no further effect.
    pub fn happen(&self) {
        // This fails only after 2^64 - 2 calls.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Resets the event.
    pub fn clear(&self) {
        // This fails if the event has not happened.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
