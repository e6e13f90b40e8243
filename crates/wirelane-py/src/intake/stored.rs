//! The packets of a store, found by a search on a separate thread.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use wirelane::halt::Halt;
use wirelane::internal::threads;
use wirelane::pcap::{Direction, Record, Source};
use wirelane::{Class, Result};
use wirelane_flow::arrow::Packets;
use wirelane_store::Directory;
use wirelane_store::query::{self, Query};

use super::packet_queue::{EndOnPanic, PacketQueue, PacketRun};
use super::{Data, Intake, ReceivedPacket};
use crate::store;

/// Packets of a store. Dropping it ends the search.
pub(crate) struct StoredPackets {
    queue: Arc<PacketQueue>,
    halt: Halt,
    run: PacketRun,
    interfaces: Vec<StoreInterface>,
}

/// An interface of a store.
struct StoreInterface {
    name: Arc<str>,
    /// Its number in rows; `None` before its first row.
    number: Option<u32>,
    source: Source,
}

impl StoredPackets {
    /// Starts to search. It ends after `count` packets.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(
        directory: Directory,
        query: Query,
        halt: Halt,
        count: Option<u64>,
    ) -> Result<(Self, Arc<PacketQueue>)> {
        let queue = Arc::new(PacketQueue::default());
        let ending = EndOnPanic(Arc::clone(&queue));
        threads::spawn("wl-search", move || search(&[directory], &query, count, &ending.0))?;
        let (run, interfaces) = (PacketRun::default(), Vec::new());
        Ok((Self { queue: Arc::clone(&queue), halt, run, interfaces }, queue))
    }

    fn learn(&mut self) {
        let new = self.run.sources().map(|source| StoreInterface {
            name: source.name.as_str().into(),
            number: None,
            source,
        });
        self.interfaces.extend(new);
    }
}

fn search(stores: &[Directory], query: &Query, count: Option<u64>, queue: &PacketQueue) {
    let mut left = count.unwrap_or(u64::MAX);
    if left == 0 {
        return queue.end(None, None);
    }
    let found = query::run(stores, query, |found| {
        left -= 1;
        match queue.push(&found.record, found.sources) {
            ControlFlow::Continue(()) if left > 0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    });
    match found {
        Ok(report) => {
            let damage = store::damage(&report);
            queue.end(Some(report), damage);
        }
        Err(error) => queue.end(None, Some(error.into())),
    }
}

impl Intake for StoredPackets {
    fn receive(&mut self, _: usize, until: Instant) -> Option<Result<bool>> {
        if self.has_some() {
            return Some(Ok(true));
        }
        let taken = self.queue.take(&mut self.run, until);
        if matches!(taken, Some(Ok(true))) {
            self.learn();
        }
        taken
    }

    fn has_some(&self) -> bool {
        !self.run.is_over()
    }

    fn take(&mut self, _: &mut Packets) -> Option<ReceivedPacket> {
        let record = self.run.pop()?;
        let interface = self.interfaces.get(record.interface as usize)?;
        Some(ReceivedPacket {
            data: Data::Copied(record.data.to_vec()),
            interface: Arc::clone(&interface.name),
            time: record.timestamp,
            length: record.original_len,
            queue: interface.source.queue.and_then(|queue| u16::try_from(queue).ok()),
            class: class(&interface.source, &record),
        })
    }

    fn add(&mut self, room: usize, rows: &mut Packets) {
        for _ in 0..room {
            let Some(record) = self.run.pop() else { return };
            let Some(interface) = self.interfaces.get_mut(record.interface as usize) else {
                continue;
            };
            let source = &interface.source;
            let number = *interface.number.get_or_insert_with(|| rows.interface(source));
            rows.push(number, &record);
        }
    }
}

impl Drop for StoredPackets {
    fn drop(&mut self) {
        self.halt.ask();
        self.queue.close();
    }
}

/// The class of the interface or, without one, of the packet's direction.
fn class(source: &Source, record: &Record<'_>) -> Class {
    source.class.unwrap_or(match record.direction {
        Direction::Outbound => Class::Tx,
        _ => Class::Rx,
    })
}
