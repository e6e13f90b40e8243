//! Receiving ends.

use std::cell::Cell;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wirelane_os::clock;

use crate::error::{Error, Result};
use crate::frame::Batch;
use crate::mask::Class;
use crate::port::metadata::discovered::DiscoveredInterfaces;
use crate::port::metadata::interfaces::InterfaceTable;
use crate::stats::RxCounters;

/// When to call an [`Rx`] again.
///
/// A busy loop calls again at once after [`Readiness::Now`] and [`Readiness::Soon`]. An event loop
/// does so only after `Now`; after `Soon` it waits for the descriptor, as after
/// [`Readiness::Descriptor`].
#[derive(Clone, Copy, Debug)]
pub enum Readiness<'a> {
    /// At once.
    Now,
    /// When this descriptor becomes readable or the time has passed, whichever is first. A sleeping
    /// thread may wake up too late for the next burst: busy-poll if the CPU is yours.
    Soon(BorrowedFd<'a>, Duration),
    /// When this descriptor becomes readable or the time has passed, whichever is first.
    Descriptor(BorrowedFd<'a>, Duration),
    /// After this time.
    After(Duration),
    /// Never: everything has been received.
    End,
}

/// A source of packets: the receiver of a backend, or of a program.
///
/// [`port::custom`](super::custom()) makes a port of such sources, and has an example.
pub trait Receive: Send {
    /// Adds received frames to `batch` while it has room; returns their number, 0 if none is ready.
    fn receive(&mut self, batch: &mut Batch) -> usize;

    /// When to call again after [`Receive::receive`] returned 0. Backends also do their
    /// housekeeping here, such as reading the kernel's counters.
    ///
    /// # Errors
    /// The interface was removed or the system refuses. Frames received before stay valid. The
    /// error is returned once: the next answer is [`Readiness::End`].
    fn readiness(&mut self) -> Result<Readiness<'_>>;

    /// A time in nanoseconds since the Unix epoch. No older frame will be received.
    fn watermark(&self) -> u64;

    /// See [`Rx::empty_at`].
    fn empty_at(&self) -> u64 {
        self.watermark()
    }

    /// See [`Rx::ring_bytes`].
    fn ring_bytes(&self) -> Option<usize> {
        None
    }
}

/// A port that has not started.
struct BeforeStart {
    port: Arc<str>,
    has_started: Arc<AtomicBool>,
    /// Time of the first call, in nanoseconds.
    since: Option<u64>,
    /// The error was returned.
    is_told: bool,
}

/// After this long without a start, the program has probably forgotten it; in nanoseconds.
const FORGOTTEN: u64 = 10_000_000_000;

impl BeforeStart {
    /// `false` once the port has started.
    ///
    /// # Errors
    /// The port should have started long ago.
    fn check(&mut self, now: u64) -> Result<bool> {
        if self.has_started.load(Ordering::Acquire) {
            return Ok(false);
        }
        if now.saturating_sub(*self.since.get_or_insert(now)) < FORGOTTEN {
            return Ok(true);
        }
        self.is_told = true;
        let cause = "it was never started, so it receives nothing";
        Err(Error::usage(format!("port '{}'", self.port), cause).help("call Port::start"))
    }
}

/// The receiving end of one queue and class, or of several, such as in a capture file.
pub struct Rx {
    inner: Box<dyn Receive>,
    counters: Arc<RxCounters>,
    table: Option<Arc<InterfaceTable>>,
    discovered: Option<Arc<DiscoveredInterfaces>>,
    /// Present until the port has started.
    before_start: Option<BeforeStart>,
    not_sync: PhantomData<Cell<()>>,
}

impl Rx {
    /// Wraps a source of packets, which counts its losses in `counters`.
    #[doc(hidden)]
    pub fn new(inner: impl Receive + 'static, counters: Arc<RxCounters>) -> Self {
        Self {
            inner: Box::new(inner),
            counters,
            table: None,
            discovered: None,
            before_start: None,
            not_sync: PhantomData,
        }
    }

    /// Declares that its packets come from interfaces that are discovered at run time. The receiver
    /// counts their packets.
    pub(crate) fn with_discovered(mut self, discovered: &Arc<DiscoveredInterfaces>) -> Self {
        self.discovered = Some(Arc::clone(discovered));
        self
    }

    /// The interfaces of its packets, if they are discovered at run time. The queue number of a
    /// frame is then the number of its interface.
    pub(crate) fn discovered(&self) -> Option<&Arc<DiscoveredInterfaces>> {
        self.discovered.as_ref()
    }

    /// Declares that its packets come from several queues, which are also counted separately.
    pub(crate) fn with_interface_table(mut self, table: Option<Arc<InterfaceTable>>) -> Self {
        self.table = table;
        self
    }

    /// Adds received frames to `batch` while it has room; returns their number. Never blocks.
    #[inline]
    pub fn receive(&mut self, batch: &mut Batch) -> usize {
        let n = self.inner.receive(batch);
        if n > 0 {
            let new = &batch[batch.len() - n..];
            let bytes: u64 = new.iter().map(|frame| u64::from(frame.original_len())).sum();
            self.counters.packets.add(n as u64);
            self.counters.bytes.add(bytes);
            if let Some(table) = &self.table {
                table.count(new);
            }
        }
        n
    }

    /// When to call again after [`Rx::receive`] returned 0.
    ///
    /// # Errors
    /// The errors of [`Receive::readiness`], or the port was not started for ten seconds.
    pub fn readiness(&mut self) -> Result<Readiness<'_>> {
        if let Some(before) = &mut self.before_start {
            if before.is_told {
                return Ok(Readiness::End);
            }
            if !before.check(clock::monotonic_ns())? {
                self.before_start = None;
            }
        }
        self.inner.readiness()
    }

    /// Sets the port's name and its flag for having started.
    pub(super) fn of_port(mut self, port: &Arc<str>, has_started: &Arc<AtomicBool>) -> Self {
        let (port, has_started) = (Arc::clone(port), Arc::clone(has_started));
        self.before_start = Some(BeforeStart { port, has_started, since: None, is_told: false });
        self
    }

    /// A time in nanoseconds since the Unix epoch. No older frame will be received.
    pub fn watermark(&self) -> u64 {
        self.inner.watermark()
    }

    /// A time (nanoseconds since the Unix epoch) at which no frame was queued: every frame received
    /// later was queued after it. Its timestamp may be a little older, because a CPU timestamps a
    /// packet before it queues it; [`Rx::watermark`] allows for this.
    pub fn empty_at(&self) -> u64 {
        self.inner.empty_at()
    }

    /// Bytes that the kernel reserves for packets before they are received, if known.
    pub fn ring_bytes(&self) -> Option<usize> {
        self.inner.ring_bytes()
    }

    /// The queue's number; `None` for packets without a queue ([`Class::Other`]).
    pub fn queue(&self) -> Option<u16> {
        self.counters.queue()
    }

    /// The class of its frames.
    pub fn class(&self) -> Class {
        self.counters.class
    }

    /// Its counters, readable from any thread.
    #[doc(hidden)]
    pub fn counters(&self) -> &Arc<RxCounters> {
        &self.counters
    }

    /// Counts packets received here that found no room in a TX queue, as `tx_full`. Programs that
    /// forward without a [`Forwarder`](crate::pipeline::Forwarder) call this for the packets that
    /// they drop.
    pub fn count_unforwarded(&mut self, packets: u64) {
        self.counters.tx_full.add(packets);
    }

    /// The queues of its packets, if the stream carries several.
    pub(crate) fn interface_table(&self) -> Option<&Arc<InterfaceTable>> {
        self.table.as_ref()
    }

    /// Wraps the backend's receiver. A wrapper counts its drops for the end as a whole.
    #[doc(hidden)]
    pub fn wrap<R: Receive + 'static>(
        self,
        wrapper: impl FnOnce(Box<dyn Receive>, Arc<RxCounters>) -> R,
    ) -> Self {
        let inner = Box::new(wrapper(self.inner, Arc::clone(&self.counters)));
        let Self { counters, discovered, before_start, .. } = self;
        Self { inner, counters, table: None, discovered, before_start, not_sync: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_start_is_told_once() {
        let mut before = BeforeStart {
            port: "sim:1".into(),
            has_started: Arc::default(),
            since: None,
            is_told: false,
        };
        assert!(before.check(7).unwrap() && before.check(6 + FORGOTTEN).unwrap());
        let told = before.check(7 + FORGOTTEN).unwrap_err().to_string();
        assert!(told.contains("never started") && told.contains("call Port::start"), "{told}");
        assert!(before.is_told);
        before.has_started.store(true, Ordering::Release);
        assert!(!before.check(8 + FORGOTTEN).unwrap());
    }
}
