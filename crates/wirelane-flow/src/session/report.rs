//! The progress of one table: its counts, and the time of its last report.

use std::sync::{Arc, Mutex};

use crate::meter::{Meter, MeterCounts};

/// The longest time that ended flows wait to be sent, in ns of packet time.
const PATIENCE: u64 = 200_000_000;

/// Publishes the packet counts of a table to other threads.
pub(super) struct CountPublisher {
    counts: Arc<Mutex<MeterCounts>>,
    /// The time at which flows were last sent to the sinks.
    sent: u64,
}

impl CountPublisher {
    pub(super) fn new(counts: Arc<Mutex<MeterCounts>>) -> Self {
        Self { counts, sent: 0 }
    }

    /// Whether the caller must send the waiting flows now.
    pub(super) fn is_due(&mut self, meter: &Meter) -> bool {
        let now = meter.now();
        let is_due = now.saturating_sub(self.sent) > PATIENCE;
        if is_due {
            self.sent = now;
        }
        is_due
    }

    /// Publishes the counts of `meter`.
    pub(super) fn tell(&self, meter: &Meter) {
        if let Ok(mut counts) = self.counts.lock() {
            *counts = meter.counts();
        }
    }
}
