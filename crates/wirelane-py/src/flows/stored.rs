//! Meters the packets of a store in one table, because they are in order of time.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::thread::JoinHandle;

use wirelane::Result;
use wirelane::internal::threads;
use wirelane_flow::session::{Collector, FlowConfig};
use wirelane_flow::{Meter, Packet, Room, Sink};
use wirelane_store::Directory;
use wirelane_store::query::{self, Found, Query};

use super::ended::MeteringResult;
use crate::store;

pub(super) fn start(
    directory: Directory,
    query: Query,
    sink: impl Sink + 'static,
    config: FlowConfig,
) -> Result<JoinHandle<MeteringResult>> {
    let collector = Collector::start(vec![Box::new(sink)], true)?;
    let (room, note) = Room::fitting(config.max_flows)?;
    let meter = Meter::new(config.meter, Arc::new(room), config.seed);
    let most = config.packets.unwrap_or(u64::MAX);
    threads::spawn("wl-metering", move || {
        let notes: Vec<_> = note.into_iter().collect();
        search(&[directory], &query, collector, meter, most, &notes)
    })
}

fn search(
    stores: &[Directory],
    query: &Query,
    collector: Collector,
    meter: Meter,
    mut left: u64,
    notes: &[String],
) -> MeteringResult {
    let mut search = StoredFlowSearch { meter, interfaces: Vec::new() };
    let found = match left {
        0 => Ok(query::Report::default()),
        _ => query::run(stores, query, |found| {
            search.take(found);
            collector.take_from(&mut search.meter);
            left -= 1;
            match left == 0 || collector.has_failed() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }),
    };
    collector.finish(&mut search.meter);
    let metered = search.meter.counts();
    let (flows, failure) = collector.join();
    let trouble = match found {
        Ok(report) => store::damage(&report),
        Err(error) => Some(error.into()),
    };
    MeteringResult::new(&metered, &flows, &[], notes, failure.into_iter().chain(trouble).collect())
}

struct StoredFlowSearch {
    meter: Meter,
    /// Number, link type and queue of each interface.
    interfaces: Vec<(u16, u16, u16)>,
}

impl StoredFlowSearch {
    fn take(&mut self, found: &Found<'_>) {
        for source in found.sources.iter().skip(self.interfaces.len()) {
            let queue = u16::try_from(source.queue.unwrap_or(0)).unwrap_or(u16::MAX);
            self.interfaces.push((self.meter.interface(&source.name), source.link_type, queue));
        }
        let number = found.record.interface as usize;
        let Some(&(interface, link_type, queue)) = self.interfaces.get(number) else { return };
        self.meter.push(&Packet {
            link_type,
            data: found.record.data,
            original_len: found.record.original_len,
            time: found.record.timestamp,
            interface,
            queue,
        });
    }
}
