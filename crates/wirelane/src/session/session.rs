//! One running job: the same handle for each kind of [`Worker`].
//!
//! ```
//! use std::time::Duration;
//! use wirelane::port::{self, OpenOptions};
//! use wirelane::session::capture::{Capture, CaptureConfig};
//! use wirelane::session::{Session, Worker};
//!
//! /// Runs any kind of session to its end.
//! fn run<W: Worker>(session: Session<W>) -> W::Outcome {
//!     while !session.wait(Duration::from_secs(1)) {}
//!     session.join()
//! }
//!
//! # fn main() -> wirelane::Result<()> {
//! let port = port::open(&"sim:2?count=1000".parse()?, &OpenOptions::default())?;
//! let outcome = run(Capture::start(vec![port], &CaptureConfig::default())?);
//! assert_eq!(outcome.queues.iter().map(|queue| queue.packets).sum::<u64>(), 1000);
//! # Ok(())
//! # }
//! ```

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::monitor::Monitor;
use crate::pipeline::Handle;
use crate::port::{Control, PortInfo};
use crate::stats::QueueStats;

/// A kind of session, with the work of its threads and its outcome.
pub trait Worker {
    /// The result at the end.
    type Outcome;

    /// Waits until the threads have ended by themselves (enough packets, the end of every source,
    /// an error), or `timeout` has passed; true if they have ended.
    fn wait(&self, timeout: Duration) -> bool;

    /// Waits until all threads have ended, and reports. The session has stopped them.
    fn join(self, monitor: &Monitor) -> Self::Outcome;
}

/// A running job. Dropping it stops it; [`Session::join`] also returns the outcome.
///
/// It dereferences to its worker, which may have further methods.
pub struct Session<W> {
    /// Dropped first: the worker waits for its threads.
    handle: StopOnDrop,
    worker: W,
    monitor: Monitor,
}

impl<W: Worker> Session<W> {
    /// A session of `worker`, whose threads run. `handle` controls its ports and ends its threads.
    #[doc(hidden)]
    pub fn new(worker: W, monitor: Monitor, handle: Handle) -> Self {
        Self { handle: StopOnDrop(handle), worker, monitor }
    }

    /// The ports.
    pub fn ports(&self) -> impl Iterator<Item = &PortInfo> {
        self.monitor.ports().iter()
    }

    /// Masks, filter and stop of each port, for any thread.
    pub fn controls(&self) -> &[Arc<dyn Control>] {
        self.handle.0.controls()
    }

    /// Controls and stop, for any thread.
    pub fn handle(&self) -> Handle {
        self.handle.0.clone()
    }

    /// Reads all counters, from any thread.
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// The counters of every receiving end now.
    pub fn queues(&self) -> Vec<QueueStats> {
        self.monitor.queues()
    }

    /// Waits until it has ended by itself (enough packets, the end of every source, an error), or
    /// `timeout` has passed; true if it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.worker.wait(timeout)
    }

    /// Stops accepting or creating packets; callable from any thread. Packets already accepted are
    /// still handled.
    pub fn stop(&self) {
        self.handle.0.stop();
    }

    /// Stops, handles the packets already accepted, and reports.
    pub fn join(self) -> W::Outcome {
        let Self { handle, worker, monitor } = self;
        drop(handle);
        worker.join(&monitor)
    }
}

impl<W> Deref for Session<W> {
    type Target = W;

    fn deref(&self) -> &W {
        &self.worker
    }
}

struct StopOnDrop(Handle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}
