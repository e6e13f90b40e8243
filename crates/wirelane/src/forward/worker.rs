//! One thread's work: receive, send on, count what finds no room.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Signals;
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame};
use crate::pipeline::budget::Allowance;
use crate::pipeline::{self, Consumer};
use crate::port::{PortInfo, Rx, Tx};
use crate::stats::RxCounters;

/// How long to wait for a transmitting end that makes no progress, once everything is to end.
const GRACE: Duration = Duration::from_secs(1);

/// How long to sleep while the transmitting end still has frames: it may want to be asked again.
const RETRY: Duration = Duration::from_millis(1);

/// Length of two Ethernet addresses.
const ADDRESSES: usize = 12;

/// Forwards from some receiving ends to one transmitting end.
pub(super) struct Worker {
    tx: Tx,
    /// Of the receiving ends, by position.
    counters: Vec<Arc<RxCounters>>,
    /// The source waits for us: nothing is lost by making it wait.
    lossless: bool,
    /// The sink keeps the wire length of a packet that was cut, and gains from being left alone.
    is_file: bool,
    swap: bool,
    /// The source does not end by itself.
    endless: bool,
    allowance: Allowance,
    signals: Arc<Signals>,
    sink: String,
    failure: Option<Error>,
}

/// What a worker leaves: the ends, whose memory must outlive all frames, and what went wrong.
pub(super) struct Ended {
    _inputs: Vec<Rx>,
    _tx: Tx,
    pub(super) errors: Vec<Error>,
}

impl Worker {
    /// A worker between the ports `source` and `sink`; with `swap` it exchanges the addresses.
    pub(super) fn new(
        inputs: &[Rx],
        tx: Tx,
        (source, sink): (&PortInfo, &PortInfo),
        endless: bool,
        swap: bool,
        allowance: Allowance,
        signals: &Arc<Signals>,
    ) -> Self {
        Self {
            tx,
            counters: inputs.iter().map(|rx| Arc::clone(rx.counters())).collect(),
            lossless: source.lossless,
            is_file: sink.backend == "file",
            swap,
            endless,
            allowance,
            signals: Arc::clone(signals),
            sink: sink.spec.clone(),
            failure: None,
        }
    }

    /// Forwards until the inputs have ended, enough packets have come, or something fails.
    pub(super) fn run(mut self, mut inputs: Vec<Rx>) -> Ended {
        let received = pipeline::run(&mut inputs, &mut self);
        self.allowance.give_back();
        let drained = self.drain();
        let mut errors: Vec<_> = self.failure.take().into_iter().collect();
        errors.extend(received.err());
        errors.extend(drained.err());
        let last = !self.endless && self.signals.finite.fetch_sub(1, Ordering::AcqRel) == 1;
        if last || !errors.is_empty() {
            self.signals.done.store(true, Ordering::Release);
        }
        Ended { _inputs: inputs, _tx: self.tx, errors }
    }

    /// Waits until what the transmitting end has taken is sent, as long as there is progress.
    fn drain(&mut self) -> Result<()> {
        let mut progress = Progress::new(self.tx.pending());
        let mut flushed = if self.failure.is_none() { self.tx.flush() } else { Ok(()) };
        while self.tx.pending() > 0 && self.failure.is_none() && flushed.is_ok() {
            if progress.is_stuck(self.tx.pending()) {
                let cause = format!("it did not send the last {} packets", self.tx.pending());
                flushed = Err(Error::failed(format!("port '{}'", self.sink), cause));
                break;
            }
            std::thread::sleep(RETRY / 4);
            flushed = self.tx.flush();
        }
        // Whatever becomes of them, nobody will know.
        self.tx.counters().errors.add(self.tx.pending() as u64);
        flushed
    }

    /// Exchanges the addresses. Packets to a group have no address to be sent back from: a source
    /// address names one station (IEEE 802.3, 3.2.3), so they are filtered.
    fn swap(&self, input: usize, batch: &mut Batch) {
        let (mut filtered, mut bytes) = (0, 0);
        batch.as_vec().retain_mut(|frame| {
            let length = u64::from(frame.original_len());
            let swapped = swap_addresses(frame);
            if !swapped {
                (filtered, bytes) = (filtered + 1, bytes + length);
            }
            swapped
        });
        if let Some(counters) = self.counters.get(input).filter(|_| filtered > 0) {
            counters.filtered.add(filtered);
            counters.undelivered_bytes.add(bytes);
        }
    }

    /// Sends the frames; those for which there is no room are dropped, unless their source can wait.
    fn send(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        self.tx.transmit(batch);
        if batch.is_empty() {
            return Ok(());
        }
        // Sending what is there, and taking back what is sent, makes room.
        self.tx.flush()?;
        self.tx.transmit(batch);
        let mut progress = Progress::new(batch.len());
        while self.lossless && !batch.is_empty() {
            self.tx.wait(RETRY)?;
            self.tx.transmit(batch);
            let stopping = self.signals.stopping.load(Ordering::Acquire);
            if progress.is_stuck(batch.len()) && stopping {
                break;
            }
        }
        if let Some(counters) = self.counters.get(input).filter(|_| !batch.is_empty()) {
            counters.tx_full.add(batch.len() as u64);
            counters.undelivered_bytes.add(wire_bytes(batch));
        }
        Ok(())
    }
}

impl Consumer for Worker {
    fn consume(&mut self, input: usize, batch: &mut Batch) {
        self.allowance.spend(batch.len());
        if self.swap {
            self.swap(input, batch);
        }
        if !self.is_file {
            refuse_cut(&self.tx, batch);
        }
        if self.failure.is_none()
            && let Err(error) = self.send(input, batch)
        {
            // The frames that are left were received, and will not be sent.
            self.tx.counters().errors.add(batch.len() as u64);
            self.failure = Some(error);
        }
    }

    fn admit(&mut self, wanted: usize) -> usize {
        if self.failure.is_some() { 0 } else { self.allowance.admit(wanted) }
    }

    fn patience(&self) -> Duration {
        if self.tx.pending() > 0 { RETRY } else { Duration::MAX }
    }

    fn round(&mut self, _inputs: &[Rx], idle: bool) {
        if idle {
            // Others may have traffic for what we do not use.
            self.allowance.give_back();
        }
        let flush = self.tx.pending() > 0 && (idle || !self.is_file);
        if flush && let Err(error) = self.tx.flush() {
            self.failure.get_or_insert(error);
        }
    }
}

/// Takes out what is no whole packet, because it was cut before it got here: sent on, it would be
/// another packet. Counted as errors of the transmitting end.
fn refuse_cut(tx: &Tx, batch: &mut Batch) {
    let is_cut = |frame: &Frame| frame.len() < frame.original_len() as usize;
    if batch.iter().any(is_cut) {
        let before = batch.len();
        batch.as_vec().retain(|frame| !is_cut(frame));
        tx.counters().errors.add((before - batch.len()) as u64);
    }
}

/// False, and nothing changed, if there are no two addresses of single stations.
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

fn wire_bytes(batch: &Batch) -> u64 {
    batch.iter().map(|frame| u64::from(frame.original_len())).sum()
}

/// Tells whether a number that should become smaller does.
struct Progress {
    left: usize,
    since: Instant,
}

impl Progress {
    fn new(left: usize) -> Self {
        Self { left, since: Instant::now() }
    }

    /// Whether it has not for [`GRACE`].
    fn is_stuck(&mut self, left: usize) -> bool {
        if left != self.left {
            *self = Self::new(left);
        }
        self.since.elapsed() >= GRACE
    }
}
