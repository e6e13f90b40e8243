//! The consumer that forwards packets.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::consumer::Consumer;
use super::running::Work;
use crate::error::Result;
use crate::frame::{Batch, Frame};
use crate::port::{Lane, Rx, Tx};
use crate::stats::RxCounters;

/// How long to sleep while frames wait to be sent: the transmitting end may want to be asked again.
const RETRY: Duration = Duration::from_millis(1);

/// How long to wait for room, and at the end for pending frames.
const FAREWELL: Duration = Duration::from_secs(1);

/// Sends received frames through the transmitting end of a [`Lane`]. When the TX queue is full,
/// frames are dropped, as a switch does, and counted as `tx_full` of their RX queue. A source that
/// can wait ([`PortInfo::lossless`](crate::port::PortInfo)) loses frames only if there is no room
/// for a second.
///
/// A consumer that changes packets contains a forwarder and calls its methods at the end of its
/// own:
///
/// ```
/// use wirelane::pipeline::{Consumer, Forwarder};
/// use wirelane::{Batch, Result};
///
/// struct ToUpper(Forwarder);
///
/// impl Consumer for ToUpper {
///     fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
///         batch.iter_mut().for_each(|frame| frame.data_mut().make_ascii_uppercase());
///         self.0.consume(input, batch)
///     }
///     fn longest_sleep(&self) -> Option<std::time::Duration> {
///         self.0.longest_sleep()
///     }
///     fn round(&mut self, inputs: &[wirelane::port::Rx], idle: bool) -> Result<()> {
///         self.0.round(inputs, idle)
///     }
/// }
/// ```
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

impl Lane {
    /// The work of a thread that serves this lane. `make` returns its consumer: the forwarder
    /// itself, or one that contains it.
    pub fn work<C>(self, make: impl FnOnce(Forwarder) -> C) -> Work<C> {
        let counters = self.rx.iter().map(|rx| Arc::clone(rx.counters())).collect();
        let forwarder = Forwarder { tx: self.tx, counters, lossless: self.lossless };
        Work { port: self.from, rx: self.rx, consumer: make(forwarder) }
    }
}

impl Consumer for Forwarder {
    fn consume(&mut self, input: usize, batch: &mut Batch) -> Result<()> {
        self.tx.transmit(batch);
        if !batch.is_empty() {
            // Sending what is there, and taking back what is sent, makes room.
            self.tx.flush()?;
            self.tx.transmit(batch);
        }
        if self.lossless && !batch.is_empty() {
            self.wait_for_room(batch)?;
        }
        if let Some(counters) = self.counters.get(input).filter(|_| !batch.is_empty()) {
            counters.tx_full.add(batch.iter().map(Frame::packets).sum());
            counters.undelivered(Some(batch.iter().map(Frame::wire_bytes).sum()));
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
        // What has not left by then is counted when the end is dropped.
        self.tx.drain(FAREWELL).map(|_| ())
    }
}
