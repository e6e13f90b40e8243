//! The threads of a session that handles packets: a consumer per queue, or a view behind a merge.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::pipeline::{Outcome, Running};
use crate::placement::Placement;
use crate::port::{Control, Port, PortInfo, Rx};
use crate::session::capture::{Capture, CaptureConfig, View};

/// Threads that receive. Dropping it stops them.
pub enum Receiving<C: Send + 'static> {
    /// The threads of the queues.
    Queues(Running<C>),
    /// One thread behind a merge by time: it alone knows which packets are the first.
    InOrder(Box<Capture>),
}

impl<C: Send + 'static> Receiving<C> {
    /// Starts a merge of the receiving ends of each port; `view` gets all of its packets, and only
    /// the first `packets` of them. See [`needs_merge`](crate::session::capture::needs_merge).
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

    /// The ports.
    pub fn ports(&self) -> impl Iterator<Item = &PortInfo> {
        let (queues, in_order) = match self {
            Self::Queues(running) => (Some(running.ports()), None),
            Self::InOrder(capture) => (None, Some(capture.ports())),
        };
        queues.into_iter().flatten().chain(in_order.into_iter().flatten())
    }

    /// Masks, filter and stop of each port, for any thread.
    pub fn controls(&self) -> &[Arc<dyn Control>] {
        match self {
            Self::Queues(running) => running.controls(),
            Self::InOrder(capture) => capture.controls(),
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

    /// Lets no more packets in, and returns the result once all threads have ended. A merge has no
    /// consumers, and one count of the frames of all ports.
    pub fn join(self) -> Outcome<C> {
        match self {
            Self::Queues(running) => {
                running.stop();
                running.join()
            }
            Self::InOrder(capture) => {
                let outcome = capture.join();
                Outcome {
                    consumers: Vec::new(),
                    queues: outcome.queues,
                    ports: outcome.ports,
                    frames: vec![outcome.frames],
                    errors: outcome.errors,
                }
            }
        }
    }
}
