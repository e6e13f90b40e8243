//! The transmitting end: frames are written into a file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use wirelane_os::clock;

use crate::error::{Error, Result};
use crate::frame::Batch;
use crate::mask::Class;
use crate::pcap::{CaptureWriter, Direction, Record};
use crate::pool::Pool;
use crate::port::Transmit;
use crate::stats::TxCounters;

/// The TX queue of a file.
pub(super) struct Sink {
    writer: CaptureWriter,
    pool: Pool,
    counters: Arc<TxCounters>,
    snaplen: usize,
    /// Wire lengths of the packets that are not yet safely in the file.
    waiting: VecDeque<u32>,
    /// Packets that are.
    written: u64,
    /// What flushing has to report.
    failure: Option<Error>,
    has_failed: bool,
}

impl Sink {
    pub(super) fn new(
        writer: CaptureWriter,
        pool: Pool,
        counters: Arc<TxCounters>,
        snaplen: u32,
    ) -> Self {
        Self {
            writer,
            pool,
            counters,
            snaplen: snaplen as usize,
            waiting: VecDeque::new(),
            written: 0,
            failure: None,
            has_failed: false,
        }
    }

    /// Counts what has become safe, or has turned out to be lost.
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

    /// Publishes how many frames are free.
    fn publish(&mut self) {
        self.pool.take(&mut Batch::new(0), 0);
    }
}

impl Transmit for Sink {
    fn transmit(&mut self, batch: &mut Batch) -> usize {
        let taken = batch.len();
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
            let record = Record {
                interface: 0,
                timestamp,
                original_len: frame.original_len(),
                direction: Direction::Unknown,
                data: data.get(..self.snaplen).unwrap_or(data),
            };
            if let Err(error) = self.writer.write(&record) {
                self.failure = Some(error.into());
                self.has_failed = true;
            }
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

    /// Writes what waits in memory. After a failure nothing more is written: the first call says
    /// why, later ones that there was one.
    fn flush(&mut self) -> Result<()> {
        self.publish();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
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
