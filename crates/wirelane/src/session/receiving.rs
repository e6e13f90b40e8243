//! The threads of a session that handles packets: a consumer per queue, or a view behind a merge.

use std::time::Duration;

use crate::error::Result;
use crate::pipeline::{Handle, Outcome, Running};
use crate::placement::Placement;
use crate::port::{Port, Rx};
use crate::session::Session;
use crate::session::capture::{Capture, CaptureConfig, CaptureOutcome, View};

/// Threads that receive. Dropping it stops them.
pub enum Receiving<C: Send + 'static> {
    /// The threads of the queues.
    Queues(Running<C>),
    /// One thread behind a merge by time: only the merge can determine the first packets.
    InOrder(Box<Session<Capture>>),
}

impl<C: Send + 'static> Receiving<C> {
    /// Starts a merge of the receiving ends of each port; `view` receives all of its packets, or
    /// only the first `packets` of them. See [`needs_merge`](crate::session::capture::needs_merge).
    ///
    /// # Errors
    /// A CPU cannot be used, a thread cannot be started, or a port refuses to start.
    pub fn start_in_order(
        ports: Vec<Port>,
        ends: Vec<Vec<Rx>>,
        packets: Option<u64>,
        single: bool,
        placement: Placement,
        view: Box<dyn View>,
    ) -> Result<Self> {
        let config =
            CaptureConfig { single, placement, packets, prompt: true, ..CaptureConfig::default() };
        Capture::start_with_ends(ports, ends, &config, view).map(Box::new).map(Self::InOrder)
    }

    /// Controls the ports and stops the threads, from any thread.
    pub fn handle(&self) -> Handle {
        match self {
            Self::Queues(running) => running.handle(),
            Self::InOrder(capture) => capture.handle(),
        }
    }

    /// Waits until it has ended by itself (enough packets, the end of every source, an error), or
    /// `timeout` has passed; true if it has ended.
    pub fn wait(&self, timeout: Duration) -> bool {
        match self {
            Self::Queues(running) => running.wait(Some(timeout)),
            Self::InOrder(capture) => capture.wait(timeout),
        }
    }

    /// Stops accepting packets, and returns the result after all threads have ended. A merge has no
    /// consumers, and one count of the frames of all ports.
    pub fn join(self) -> Outcome<C> {
        match self {
            Self::Queues(running) => {
                running.stop();
                running.join()
            }
            Self::InOrder(capture) => {
                let CaptureOutcome { ports, queues, frames, errors, .. } = capture.join();
                Outcome { consumers: Vec::new(), queues, ports, frames: vec![frames], errors }
            }
        }
    }
}
