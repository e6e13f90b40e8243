//! Measures how long frames are in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wirelane_os::clock;

use wirelane::error::Result;
use wirelane::frame::Batch;
use wirelane::port::{Port, Readiness, Receive};

/// Lets the receiving ends of a port add to `held` how long their frames were in use.
pub(super) fn time(port: &mut Port, held: &Arc<AtomicU64>) {
    port.map_rx(|rx| {
        rx.wrap(|inner, _| TimedRx { inner, since: None, total: 0, held: Arc::clone(held) })
    });
}

struct TimedRx {
    inner: Box<dyn Receive>,
    /// The receive time of the batch in use.
    since: Option<u64>,
    total: u64,
    held: Arc<AtomicU64>,
}

impl TimedRx {
    /// The consumer has freed its batch before it asks for the next.
    #[inline]
    fn given_back(&mut self) {
        if let Some(since) = self.since.take() {
            self.total += clock::monotonic_ns().saturating_sub(since);
        }
    }
}

impl Receive for TimedRx {
    fn receive(&mut self, batch: &mut Batch) -> usize {
        self.given_back();
        let n = self.inner.receive(batch);
        if n > 0 {
            self.since = Some(clock::monotonic_ns());
        }
        n
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        self.given_back();
        self.inner.readiness()
    }

    fn watermark(&self) -> u64 {
        self.inner.watermark()
    }
}

impl Drop for TimedRx {
    fn drop(&mut self) {
        self.held.fetch_add(self.total, Ordering::Relaxed);
    }
}
