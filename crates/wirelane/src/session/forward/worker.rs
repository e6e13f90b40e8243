//! The work of one thread: receive, send, count packets that find no room.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::signals::Signals;
use super::tx_path::{DrainProgress, RETRY, TxPath, TxPathBuilder};
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame};
use crate::pipeline::Consumer;
use crate::port::{Backend, PortInfo, Rx};
use crate::stats::RxCounters;

/// Length of two Ethernet addresses.
const ADDRESSES: usize = 12;

/// Forwards from several receiving ends to one transmitting end.
pub(super) struct ForwardWorker {
    tx_path: TxPath,
    /// The counters of the receiving ends, by index.
    counters: Vec<Arc<RxCounters>>,
    /// The source waits for its consumer without losing packets.
    lossless: bool,
    /// The sink is a file: it keeps the wire length of truncated packets, and needs few flushes.
    is_file: bool,
    swap: bool,
    /// The source does not end by itself.
    endless: bool,
    signals: Arc<Signals>,
    sink: String,
    failed: bool,
    /// Errors at the end.
    pub(super) errors: Vec<Error>,
    /// Packets that were truncated before they were received.
    pub(super) truncated: u64,
}

/// Source, destination and mode of a worker.
pub(super) struct Direction {
    pub(super) source: PortInfo,
    pub(super) sink: PortInfo,
    /// The source does not end by itself.
    pub(super) endless: bool,
    pub(super) swap: bool,
}

impl ForwardWorker {
    /// A worker of the calling thread.
    pub(super) fn new(
        inputs: &[Rx],
        tx_path: TxPathBuilder,
        direction: Direction,
        signals: Arc<Signals>,
    ) -> Self {
        Self {
            tx_path: tx_path.build(),
            counters: inputs.iter().map(|rx| Arc::clone(rx.counters())).collect(),
            lossless: direction.source.lossless,
            is_file: direction.sink.backend == Backend::File,
            swap: direction.swap,
            endless: direction.endless,
            signals,
            sink: direction.sink.spec,
            failed: false,
            errors: Vec::new(),
            truncated: 0,
        }
    }

    /// Removes packets that cannot be sent: truncated packets, which would be different packets. If
    /// addresses are swapped, also packets to a group, because a source address names one station
    /// (IEEE 802.3, 3.2.3).
    fn filter(&mut self, input: usize, batch: &mut Batch) {
        let (mut filtered, mut bytes, mut truncated) = (0, 0, 0);
        batch.as_vec().retain_mut(|frame| {
            let is_truncated = frame.len() < frame.original_len() as usize && !self.is_file;
            let keep = !is_truncated && (!self.swap || swap_addresses(frame));
            if !keep {
                (filtered, bytes) = (filtered + frame.packets(), bytes + frame.wire_bytes());
                truncated += u64::from(is_truncated);
            }
            keep
        });
        self.truncated += truncated;
        if let Some(counters) = self.counters.get(input).filter(|_| filtered > 0) {
            counters.filtered.add(filtered);
            counters.undelivered(Some(bytes));
        }
    }

    /// Sends the frames; frames without room remain, unless their source can wait.
    fn send(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        let mut dropped = self.tx_path.send(batch);
        if !batch.is_empty() {
            // Sending pending frames and reclaiming sent ones makes room.
            self.tx_path.flush()?;
            dropped += self.tx_path.send(batch);
        }
        if self.lossless {
            let mut progress = DrainProgress::new(batch.len());
            while !batch.is_empty() || self.tx_path.is_crowded()? {
                self.tx_path.wait()?;
                dropped += self.tx_path.send(batch);
                let stopping = self.signals.stopping.load(Ordering::Acquire);
                if progress.is_stuck(batch.len()) && stopping || self.signals.is_late() {
                    break;
                }
            }
        }
        if let Some(counters) = self.counters.get(input).filter(|_| dropped > 0) {
            counters.tx_full.add(dropped);
            // The discipline does not report which packets they were.
            counters.undelivered(None);
        }
        Ok(())
    }
}

impl Consumer for ForwardWorker {
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        self.filter(input, batch);
        let sent = self.send(input, batch).inspect_err(|_| self.failed = true);
        if let Some(counters) = self.counters.get(input).filter(|_| !batch.is_empty()) {
            counters.tx_full.add(batch.iter().map(Frame::packets).sum());
            counters.undelivered(Some(batch.iter().map(Frame::wire_bytes).sum()));
        }
        sent
    }

    fn longest_sleep(&self) -> Option<Duration> {
        (self.tx_path.pending() > 0).then_some(RETRY)
    }

    fn round(&mut self, _inputs: &[Rx], idle: bool) -> Result<()> {
        let flush = self.tx_path.pending() > 0 && (idle || !self.is_file);
        if flush {
            self.tx_path.flush().inspect_err(|_| self.failed = true)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if self.failed {
            self.tx_path.abandon();
        } else {
            // Reported in addition to earlier errors.
            let drained = self.tx_path.drain(&self.sink, || self.signals.is_late());
            self.errors.extend(drained.err());
        }
        let last = !self.endless && self.signals.finite.fetch_sub(1, Ordering::AcqRel) == 1;
        if last || !self.errors.is_empty() {
            self.signals.done.store(true, Ordering::Release);
        }
        Ok(())
    }
}

/// False, without any change, unless both addresses are of single stations.
#[inline]
fn swap_addresses(frame: &mut Frame) -> bool {
    let Some(addresses) = frame.data_mut().first_chunk_mut::<ADDRESSES>() else { return false };
    let [a, b, c, d, e, f, rest @ ..] = *addresses;
    // The first bit on the wire: I/G.
    if a & 1 == 1 || rest[0] & 1 == 1 {
        return false;
    }
    let [g, h, i, j, k, l] = rest;
    *addresses = [g, h, i, j, k, l, a, b, c, d, e, f];
    true
}
