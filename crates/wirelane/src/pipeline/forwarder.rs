//! The consumer that forwards packets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::consumer::Consumer;
use super::work::Work;
use crate::error::Result;
use crate::frame::{Batch, Frame};
use crate::port::{ForwardPath, Rx, Tx};
use crate::stats::RxCounters;

/// How long to sleep while frames are pending: the transmitting end may need another flush.
const RETRY: Duration = Duration::from_millis(1);

/// How long to wait for room, and at the end for pending frames.
const FAREWELL: Duration = Duration::from_secs(1);

/// Sends received frames through a transmitting end ([`Threads::forward`]). When the TX queue is
/// full, frames are dropped, as in a switch, and counted as `tx_full` of their RX queue. A source
/// that can wait ([`PortInfo::lossless`](crate::port::PortInfo)) loses frames only if there is no
/// room for one second.
///
/// A program that changes or drops packets uses [`Forwarder::before_send`]:
///
/// ```
/// use wirelane::Batch;
/// use wirelane::pipeline::Threads;
/// use wirelane::port::{self, OpenOptions};
///
/// # fn main() -> wirelane::Result<()> {
/// let options = OpenOptions::forwarder();
/// let port = port::open(&"sim:2?count=100".parse()?, &options)?;
/// // The shortest packets stay behind.
/// let change = |batch: &mut Batch| batch.retain(|frame| frame.len() > 60);
/// let running = Threads::default().forward(vec![port], |_, out| out.before_send(change))?;
/// let outcome = running.join();
/// assert_eq!(outcome.queues.len(), 2);
/// # Ok(())
/// # }
/// ```
///
/// [`Threads::forward`]: crate::pipeline::Threads::forward
pub struct Forwarder {
    tx: Tx,
    counters: Vec<Arc<RxCounters>>,
    lossless: bool,
}

impl Forwarder {
    /// The transmitting end.
    pub fn tx(&mut self) -> &mut Tx {
        &mut self.tx
    }

    /// Passes each batch to `change` and sends the remaining frames. Frames that `change` removes
    /// are counted as `filtered` of their RX queue.
    pub fn before_send<F: FnMut(&mut Batch)>(self, change: F) -> impl Consumer {
        Changing { change, forwarder: self }
    }

    #[cold]
    fn wait_for_room(&mut self, batch: &mut Batch) -> Result<()> {
        let mut since = Instant::now();
        while !batch.is_empty() && since.elapsed() < FAREWELL {
            self.tx.wait(RETRY)?;
            if self.tx.transmit(batch) > 0 {
                since = Instant::now();
            }
        }
        Ok(())
    }
}

impl ForwardPath {
    /// The work of a thread that serves this lane. `make` returns its consumer: the forwarder
    /// itself, or a consumer that contains it.
    #[doc(hidden)]
    pub fn work<C>(self, make: impl FnOnce(Forwarder) -> C) -> Work<C> {
        let counters = self.rx.iter().map(|rx| Arc::clone(rx.counters())).collect();
        let forwarder = Forwarder { tx: self.tx, counters, lossless: self.lossless };
        Work { port: self.from, rx: self.rx, consumer: make(forwarder) }
    }
}

/// Packets and their bytes on the wire.
fn tally(batch: &Batch) -> (u64, u64) {
    let add =
        |(packets, bytes), frame: &Frame| (packets + frame.packets(), bytes + frame.wire_bytes());
    batch.iter().fold((0, 0), add)
}

/// A [`Forwarder`] and the function that changes packets first; see [`Forwarder::before_send`].
struct Changing<F> {
    change: F,
    forwarder: Forwarder,
}

impl<F: FnMut(&mut Batch)> Consumer for Changing<F> {
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        let before = tally(batch);
        (self.change)(batch);
        let left = tally(batch);
        let counters = self.forwarder.counters.get(input);
        if let Some(counters) = counters.filter(|_| left.0 < before.0) {
            counters.filtered.add(before.0 - left.0);
            counters.undelivered(Some(before.1.saturating_sub(left.1)));
        }
        self.forwarder.consume(input, batch)
    }

    fn longest_sleep(&self) -> Option<Duration> {
        self.forwarder.longest_sleep()
    }

    fn round(&mut self, inputs: &[Rx], idle: bool) -> Result<()> {
        self.forwarder.round(inputs, idle)
    }

    fn finish(&mut self) -> Result<()> {
        self.forwarder.finish()
    }
}

impl Consumer for Forwarder {
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        self.tx.transmit(batch);
        if !batch.is_empty() {
            // Sending pending frames and reclaiming sent ones makes room.
            self.tx.flush()?;
            self.tx.transmit(batch);
        }
        if self.lossless && !batch.is_empty() {
            self.wait_for_room(batch)?;
        }
        if let Some(counters) = self.counters.get(input).filter(|_| !batch.is_empty()) {
            let (packets, bytes) = tally(batch);
            counters.tx_full.add(packets);
            counters.undelivered(Some(bytes));
        }
        Ok(())
    }

    fn longest_sleep(&self) -> Option<Duration> {
        (self.tx.pending() > 0).then_some(RETRY)
    }

    fn round(&mut self, _: &[Rx], _: bool) -> Result<()> {
        if self.tx.pending() > 0 { self.tx.flush() } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<()> {
        // Frames still pending are counted when the end is dropped.
        self.tx.drain(FAREWELL).map(|_| ())
    }
}
