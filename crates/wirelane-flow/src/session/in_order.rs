//! Meters packets merged by time, for a limit on the packets of several queues (`-c`).

use std::sync::{Arc, Mutex};

use wirelane::Result;
use wirelane::internal;
use wirelane::internal::session::View;
use wirelane::pcap::Record;

use super::collector::Collector;
use super::report::CountPublisher;
use crate::meter::{Meter, MeterCounts};
use crate::packet::Packet;

/// Meters packets on the single receiving thread.
pub(super) struct OrderedMetering {
    meter: Meter,
    collector: Arc<Collector>,
    report: CountPublisher,
    interfaces: Vec<MeteredInterface>,
}

struct MeteredInterface {
    number: u16,
    link_type: u16,
    queue: u16,
}

impl OrderedMetering {
    pub(super) fn new(
        meter: Meter,
        collector: Arc<Collector>,
        counts: Arc<Mutex<MeterCounts>>,
    ) -> Self {
        Self { meter, collector, report: CountPublisher::new(counts), interfaces: Vec::new() }
    }

    /// Sends ended flows to the sinks if they have waited long enough.
    fn send_if_due(&mut self) -> Result<()> {
        self.collector.check()?;
        if self.report.is_due(&self.meter) {
            self.report.tell(&self.meter);
            self.collector.take_all_from(&mut self.meter);
        }
        Ok(())
    }
}

impl View for OrderedMetering {
    fn interface(&mut self, interface: &internal::session::Interface) -> Result<()> {
        let source = &interface.source;
        self.interfaces.push(MeteredInterface {
            number: self.meter.interface(&source.name),
            link_type: source.link_type,
            queue: source.queue.and_then(|queue| u16::try_from(queue).ok()).unwrap_or(0),
        });
        Ok(())
    }

    fn packet(&mut self, record: &Record<'_>, _: &[u8]) -> Result<()> {
        let Some(interface) = self.interfaces.get(record.interface as usize) else { return Ok(()) };
        self.meter.push(&Packet {
            link_type: interface.link_type,
            data: record.data,
            original_len: record.original_len,
            time: record.timestamp,
            interface: interface.number,
            queue: interface.queue,
        });
        self.collector.take_from(&mut self.meter);
        self.send_if_due()
    }

    fn advance(&mut self, time: u64) -> Result<()> {
        self.meter.flush();
        self.meter.advance(time);
        Ok(())
    }

    fn needs_all(&self) -> bool {
        true
    }

    fn pause(&mut self) -> Result<()> {
        self.meter.flush();
        self.send_if_due()
    }
}

impl Drop for OrderedMetering {
    /// Ends all flows.
    fn drop(&mut self) {
        self.meter.flush();
        self.collector.finish(&mut self.meter);
        self.report.tell(&self.meter);
    }
}
