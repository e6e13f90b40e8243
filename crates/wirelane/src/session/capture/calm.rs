//! How long a thread sleeps that checks for work periodically: longer after a time without work.

use std::time::{Duration, Instant};

/// While there is work: single chunks, flushes and rotation by time wait for the end of a sleep.
const SHORT: Duration = Duration::from_millis(100);
/// While there is no work.
const LONG: Duration = Duration::from_millis(500);
/// The time without work after which a thread sleeps longer.
const AFTER: Duration = Duration::from_secs(2);

pub(super) struct Calm(Instant);

impl Calm {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// How long to sleep now, after a look that has found work or none.
    pub(super) fn sleep(&mut self, found: bool) -> Duration {
        if found {
            self.0 = Instant::now();
        }
        if self.0.elapsed() < AFTER { SHORT } else { LONG }
    }
}
