//! The transmitting end: writes frames into a file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use wirelane_os::clock;

use super::progress::FileProgress;
use crate::error::{Error, Result};
use crate::frame::Batch;
use crate::mask::Class;
use crate::pcap::pcapng::MetadataBlock;
use crate::pcap::{CaptureError, CaptureWriter, Record};
use crate::pool::Pool;
use crate::port::metadata::file::MetadataQueue;
use crate::port::options::OpenOptions;
use crate::port::{InterfaceTable, Transmit};
use crate::stats::TxCounters;
use crate::sync::lock;

/// The TX queue of a file.
pub(super) struct FileTransmitter {
    writer: CaptureWriter,
    pool: Pool,
    counters: Arc<TxCounters>,
    snaplen: usize,
    /// The interfaces of the packets' file, and the queue of its other blocks.
    table: Option<Arc<InterfaceTable>>,
    queued: Option<Arc<MetadataQueue>>,
    /// The number of interfaces that the new file describes.
    described: u32,
    progress: Arc<FileProgress>,
    /// Wire lengths of the packets that are not yet safely in the file.
    waiting: VecDeque<u32>,
    /// Packets that are safely in the file.
    written: u64,
    /// An error for the next flush to report.
    failure: Option<Error>,
    has_failed: bool,
}

impl FileTransmitter {
    pub(super) fn new(
        writer: CaptureWriter,
        pool: Pool,
        counters: Arc<TxCounters>,
        options: &OpenOptions,
        progress: &Arc<FileProgress>,
    ) -> Self {
        let metadata = options.internal.file_metadata.as_ref();
        Self {
            writer,
            pool,
            counters,
            snaplen: options.snaplen as usize,
            table: metadata.and_then(|metadata| metadata.interface_table().cloned()),
            queued: metadata.map(|metadata| metadata.queue(true)),
            described: metadata
                .and_then(|metadata| metadata.interface_table())
                .map_or(1, |table| table.entries().len() as u32),
            progress: Arc::clone(progress),
            waiting: VecDeque::new(),
            written: 0,
            failure: None,
            has_failed: false,
        }
    }

    /// Counts packets that are now safe, or known to be lost.
    fn settle(&mut self) {
        let written = self.writer.written().packets;
        let new = usize::try_from(written - self.written).unwrap_or(usize::MAX);
        let new = new.min(self.waiting.len());
        let bytes = self.waiting.drain(..new).map(u64::from).sum();
        self.counters.packets.add(new as u64);
        self.counters.bytes.add(bytes);
        self.written = written;
        if self.has_failed {
            self.counters.give_up(self.waiting.len() as u64);
            self.waiting.clear();
        }
    }

    /// Writes the queued blocks of the packets' file.
    fn write_blocks(&mut self) {
        while let Some(block) = self.queued.as_ref().and_then(|queue| queue.take()) {
            let Some(metadata) = MetadataBlock::new(&block).filter(|_| !self.has_failed) else {
                continue;
            };
            let written = self.writer.write_metadata(metadata);
            self.note(written);
        }
    }

    /// Describes the interfaces up to this one, which were described after the first packet.
    #[cold]
    fn describe(&mut self, interface: u32) {
        while self.described <= interface && !self.has_failed {
            let found = self.table.as_ref().and_then(|all| all.entry(self.described as usize));
            let added = found.map_or(Ok(0), |(source, _)| self.writer.add_source(source));
            self.note(added.map(drop));
            self.described += 1;
        }
    }

    fn note(&mut self, written: Result<(), CaptureError>) {
        if let Err(error) = written {
            self.failure = Some(error.into());
            self.has_failed = true;
        }
    }

    /// Reports to the port the metadata that the file cannot store.
    fn tell_losses(&self) {
        let mut lost = self.writer.lost();
        if self.queued.is_none() {
            // Without a source file, a pcap file loses no interfaces that the user expects.
            lost.interfaces = 0;
        }
        *lock(&self.progress.lost) = lost;
    }

    /// Publishes the number of free frames.
    fn publish(&mut self) {
        self.pool.take(&mut Batch::new(0), 0);
    }
}

impl Transmit for FileTransmitter {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let taken = batch.len();
        self.write_blocks();
        let mut now = None;
        for frame in batch.iter() {
            self.waiting.push_back(frame.original_len());
            if self.has_failed {
                continue;
            }
            let timestamp = if frame.has_time() {
                frame.timestamp()
            } else {
                *now.get_or_insert_with(clock::realtime_ns)
            };
            let data = frame.data();
            let place = self.table.as_ref().map(|table| table.number_and_direction(frame));
            let (interface, direction) = place.unwrap_or_default();
            if interface >= self.described {
                self.describe(interface);
            }
            let record = Record {
                interface,
                timestamp,
                original_len: frame.original_len(),
                direction,
                data: data.get(..self.snaplen).unwrap_or(data),
            };
            let options = frame.attached().filter(|_| self.table.is_some());
            let options = options.map(|(_, options)| options).unwrap_or_default();
            let written = self.writer.write_with(&record, options);
            self.note(written);
        }
        self.settle();
        batch.clear();
        self.publish();
        taken
    }

    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        let first = batch.len();
        let taken = self.pool.take(batch, n);
        for frame in &mut batch[first..] {
            frame.stamp(0, 0, Class::Tx);
        }
        taken
    }

    /// Writes packets from memory to the file. After a failure no packets are written: the first
    /// call returns its cause, later calls a general error.
    fn flush(&mut self) -> Result<()> {
        self.publish();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.write_blocks();
        self.tell_losses();
        let flushed = self.writer.flush();
        self.has_failed |= flushed.is_err();
        self.settle();
        Ok(flushed?)
    }

    fn pending(&self) -> usize {
        self.waiting.len()
    }

    fn wait(&mut self, _timeout: Duration) -> Result<()> {
        Ok(())
    }
}
