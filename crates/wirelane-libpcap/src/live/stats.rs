//! The counters of `pcap_stats`.

use std::fs;
use std::sync::Arc;

use wirelane::internal::stats::RxCounters;
use wirelane::port::Control;

use crate::failure::PcapFailure;
use crate::status::StatTotals;

/// The counters of a capture, in 64 bits.
pub(crate) struct CaptureCounts {
    control: Arc<dyn Control>,
    /// The counters of each receiving end.
    rx: Vec<Arc<RxCounters>>,
    /// An interface in promiscuous mode, whose drops count, and its drops at the start.
    interface: Option<(String, u64)>,
}

impl CaptureCounts {
    /// Counts from now on. Like libpcap, counts an interface's drops only in promiscuous mode.
    pub(super) fn new(
        control: Arc<dyn Control>,
        rx: Vec<Arc<RxCounters>>,
        promiscuous: Option<&str>,
    ) -> Self {
        let interface = promiscuous.map(|name| (name.to_owned(), interface_drops(name)));
        Self { control, rx, interface }
    }

    /// The counts until now. `rejected` packets did not pass the program's filter.
    ///
    /// # Errors
    /// The system refuses to say.
    pub(super) fn read(&self, rejected: u64) -> Result<StatTotals, PcapFailure> {
        let (received, dropped) = match self.control.passed()? {
            Some(passed) => (passed.packets, passed.dropped),
            None => self.of_ends(rejected),
        };
        let interface_dropped = self
            .interface
            .as_ref()
            .map_or(0, |(name, first)| interface_drops(name).saturating_sub(*first));
        Ok(StatTotals { received, dropped, interface_dropped })
    }

    /// The counts of ports on which only the receiving ends count.
    fn of_ends(&self, rejected: u64) -> (u64, u64) {
        let (mut received, mut dropped) = (0, 0);
        for counters in &self.rx {
            let stats = counters.snapshot(0);
            let lost = stats.dropped.kernel.unwrap_or(0) + stats.dropped.ring_full.unwrap_or(0);
            received += stats.packets + lost;
            dropped += lost;
        }
        (received.saturating_sub(rejected), dropped)
    }
}

/// Packets that the device dropped for lack of buffers.
fn interface_drops(name: &str) -> u64 {
    let read = |counter: &str| {
        let text = fs::read_to_string(format!("/sys/class/net/{name}/statistics/{counter}"));
        text.ok().and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    read("rx_missed_errors").saturating_add(read("rx_fifo_errors"))
}
