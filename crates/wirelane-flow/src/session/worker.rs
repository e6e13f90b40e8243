//! The receiving side: passes frames to a flow table.

use std::sync::{Arc, Mutex};

use wirelane::Result;
use wirelane::frame::Batch;
use wirelane::internal::session::{Placing, interfaces};
use wirelane::pipeline::Consumer;
use wirelane::port::{PortInfo, Rx};

use super::collector::{Collector, Inbox, Outbox, PARCEL};
use super::report::CountPublisher;
use crate::meter::{Meter, MeterCounts};
use crate::packet::Packet;
use crate::parts::{PartOrigin, TableReport};

/// The consumer of one receiving thread.
pub(super) struct MeteringWorker {
    ends: Vec<MeteredQueue>,
    meter: Meter,
    /// `None` after the end.
    outbox: Option<Outbox>,
    inbox: Arc<Inbox>,
    origins: Vec<PartOrigin>,
    /// The next report.
    parts: TableReport,
    /// No later packet is older than this.
    time: u64,
    report: CountPublisher,
}

/// A receive queue.
struct MeteredQueue {
    placing: Placing,
    /// The number and link type of each interface, by position.
    interfaces: Vec<Option<(u16, u16)>>,
}

impl MeteringWorker {
    pub(super) fn new(
        info: &PortInfo,
        inputs: &[Rx],
        mut meter: Meter,
        collector: &Collector,
        table: usize,
        counts: Arc<Mutex<MeterCounts>>,
    ) -> Self {
        let ends = inputs.iter().map(|rx| MeteredQueue::new(info, rx, &mut meter)).collect();
        let (outbox, inbox) = (Some(collector.outbox(table)), collector.inbox(table));
        let (origins, parts) = (Vec::new(), TableReport::default());
        let report = CountPublisher::new(counts);
        Self { ends, meter, outbox, inbox, origins, parts, time: 0, report }
    }

    /// Sends the parts that began and ended, and the time of this table. Without parts, it sends
    /// the time only if flows wait for it, because each report wakes the collector.
    fn send(&mut self) {
        self.report.tell(&self.meter);
        let Some(outbox) = &self.outbox else { return };
        self.meter.take_parts(&mut self.parts);
        if self.parts.is_empty() && !outbox.awaits_time() {
            return;
        }
        self.parts.time = self.time;
        outbox.send(&mut self.parts);
    }
}

impl Consumer for MeteringWorker {
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        let Self { ends, meter, .. } = self;
        let Some(end) = ends.get_mut(input) else { return Ok(()) };
        for frame in batch.iter() {
            let place = end.placing.place_late(frame).0;
            let known = end.interfaces.get(place as usize).copied().flatten();
            let Some((interface, link_type)) = known.or_else(|| end.find(place, meter)) else {
                continue;
            };
            meter.push(&Packet {
                link_type,
                data: frame.data(),
                original_len: frame.original_len(),
                time: frame.timestamp(),
                interface,
                queue: frame.queue().unwrap_or(0),
            });
        }
        meter.flush();
        if self.meter.ready() >= PARCEL {
            self.send();
        }
        Ok(())
    }

    fn round(&mut self, inputs: &[Rx], idle: bool) -> Result<()> {
        self.outbox.as_ref().map_or(Ok(()), Outbox::check)?;
        let Self { inbox, origins, meter, .. } = self;
        inbox.take(origins);
        origins.drain(..).for_each(|origin| meter.began(&origin));
        self.time = inputs.iter().map(Rx::watermark).min().unwrap_or(0);
        if idle && self.time < u64::MAX {
            self.meter.advance(self.time);
        }
        if self.report.is_due(&self.meter) {
            self.send();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(outbox) = self.outbox.take() {
            outbox.finish(&mut self.meter, std::mem::take(&mut self.parts));
        }
        self.report.tell(&self.meter);
        Ok(())
    }
}

impl MeteredQueue {
    fn new(info: &PortInfo, rx: &Rx, meter: &mut Meter) -> Self {
        let placing = Placing::of(rx);
        let known = match placing.is_growing() {
            true => Vec::new(),
            false => interfaces(info, rx),
        };
        let number = |source: &wirelane::pcap::Source| {
            Some((meter.interface(&source.name), source.link_type))
        };
        let interfaces = known.iter().map(|one| &one.source).map(number).collect();
        Self { placing, interfaces }
    }

    /// Adds an interface that appeared while the port runs, or that a file describes late.
    #[cold]
    fn find(&mut self, place: u32, meter: &mut Meter) -> Option<(u16, u16)> {
        let source = self.placing.found(place)?;
        let found = (meter.interface(&source.name), source.link_type);
        let place = place as usize;
        self.interfaces.resize(self.interfaces.len().max(place + 1), None);
        *self.interfaces.get_mut(place)? = Some(found);
        Some(found)
    }
}
