//! How long frames are in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wirelane_os::clock;

use wirelane::capture::FileId;
use wirelane::error::Result;
use wirelane::frame::Batch;
use wirelane::port::{Census, Control, Port, PortInfo, Readiness, Receive, Rx, Tx};
use wirelane::segment::Sink;

/// A port whose receiving ends say how long their frames were in use.
pub(super) struct Timed {
    pub(super) inner: Box<dyn Port>,
    pub(super) held: Arc<AtomicU64>,
}

impl Port for Timed {
    fn info(&self) -> &PortInfo {
        self.inner.info()
    }

    fn rx(&mut self) -> Vec<Rx> {
        let timed = |rx: Rx| {
            rx.wrap(|inner, _| TimedRx {
                inner,
                since: None,
                total: 0,
                held: Arc::clone(&self.held),
            })
        };
        self.inner.rx().into_iter().map(timed).collect()
    }

    fn tx(&mut self) -> Vec<Tx> {
        self.inner.tx()
    }

    fn start(&mut self) -> Result<()> {
        self.inner.start()
    }

    fn control(&self) -> Arc<dyn Control> {
        self.inner.control()
    }

    fn census(&self) -> Census {
        self.inner.census()
    }

    fn is_endless(&self) -> bool {
        self.inner.is_endless()
    }

    fn sink(&self) -> Sink {
        self.inner.sink()
    }

    fn inputs(&self) -> Vec<FileId> {
        self.inner.inputs()
    }

    fn late_notes(&self) -> Vec<String> {
        self.inner.late_notes()
    }
}

struct TimedRx {
    inner: Box<dyn Receive>,
    /// When the batch that is in use was received.
    since: Option<u64>,
    total: u64,
    held: Arc<AtomicU64>,
}

impl TimedRx {
    /// The consumer has given its batch back before it asks again.
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
