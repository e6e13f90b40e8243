//! The differences between workers of live commands.

use std::time::Duration;

use wirelane::internal::session::PortSwitches;
use wirelane::session::Worker;
use wirelane::session::capture::Capture;
use wirelane::session::count::Counting;
use wirelane::session::forward::Forward;
use wirelane_flow::session::Metering;
use wirelane_send::Sending;
use wirelane_store::record::Recording;

/// The worker of a live command.
pub(crate) trait LiveWorker: Worker {
    /// Whether it receives packets, which masks and filters can select.
    const RECEIVES: bool = true;
    /// Whether the worker itself ends after `--duration`.
    const ENDS_IN_TIME: bool = false;
    /// The longest wait: the end of some workers, or a signal, wakes no thread that waits for them.
    const LONGEST_WAIT: Duration = Duration::MAX;

    /// Segmentation and merging at each port; empty if they cannot be changed.
    fn switches(&self) -> Vec<Option<PortSwitches>> {
        Vec::new()
    }
}

const LOOK: Duration = Duration::from_millis(100);

impl LiveWorker for Capture {}
impl LiveWorker for Counting {}
impl LiveWorker for Metering {}
impl LiveWorker for Recording {}

impl LiveWorker for Forward {
    const LONGEST_WAIT: Duration = LOOK;

    fn switches(&self) -> Vec<Option<PortSwitches>> {
        Self::switches(self)
    }
}

impl LiveWorker for Sending {
    const RECEIVES: bool = false;
    const ENDS_IN_TIME: bool = true;
    const LONGEST_WAIT: Duration = LOOK;
}
