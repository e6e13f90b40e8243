//! Tells the thread that waits for the end that a writer or view has failed.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use wirelane_os::event::Event;

use crate::error::Result;

pub(super) struct Failure(Event);

impl Failure {
    /// # Errors
    /// The process has no descriptor left.
    pub(super) fn new() -> Result<Self> {
        Ok(Self(Event::new()?))
    }

    pub(super) fn happen(&self) {
        self.0.happen();
    }

    pub(super) fn has_happened(&self) -> bool {
        self.0.wait(Duration::ZERO)
    }
}

impl AsFd for Failure {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
