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

/// When to ask an [`Rx`] again.
///
/// A loop that has nothing else to do asks again at once after [`Readiness::Now`] and
/// [`Readiness::Soon`]. An event loop does so after `Now` only, and waits for the descriptor of
/// `Soon` as for that of [`Readiness::Descriptor`].
#[derive(Clone, Copy, Debug)]
pub enum Readiness<'a> {
    /// Now.
    Now,
    /// When this descriptor becomes readable or the time has passed, whichever comes first. A
    /// sleeping thread may wake up too late for the next burst: busy-poll if the CPU is yours.
    Soon(BorrowedFd<'a>, Duration),
    /// When this descriptor becomes readable, or after the time, whichever comes first.
    Descriptor(BorrowedFd<'a>, Duration),
    /// After this time.
    After(Duration),
    /// Never: everything has been received.
    End,
}

/// What a backend implements for receiving.
pub trait Receive: Send {
    /// Adds received frames to `batch` while it has room; returns how many. 0 if none is ready.
    fn receive(&mut self, batch: &mut Batch) -> usize;

    /// When to ask again after a call that returned nothing. Also the place for a backend's
    /// housekeeping such as reading the kernel's counters.
    ///
    /// # Errors
    /// The interface went away or the system refuses; frames received before stay valid. The error
    /// is returned once: the next answer is [`Readiness::End`].
    fn readiness(&mut self) -> Result<Readiness<'_>>;

    /// No frame older than this (nanoseconds since the Unix epoch) will be received any more.
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
    /// Since when it is asked, in nanoseconds.
    since: Option<u64>,
    /// The error was returned.
    is_told: bool,
}

/// A program that asks for packets for this time has forgotten to start the port.
const FORGOTTEN: u64 = 10_000_000_000;

impl BeforeStart {
    /// `false` once the port has started.
    ///
    /// # Errors
    /// It should have started long ago.
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

/// The receiving end of one queue and class, or, of a capture file, of several of them.
pub struct Rx {
    inner: Box<dyn Receive>,
    counters: Arc<RxCounters>,
    table: Option<Arc<InterfaceTable>>,
    discovered: Option<Arc<DiscoveredInterfaces>>,
    /// Until its port has started.
    before_start: Option<BeforeStart>,
    not_sync: PhantomData<Cell<()>>,
}

impl Rx {
    /// Wraps a backend's receiver.
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

    /// Declares that its packets come from interfaces that are found while it runs. The receiver
    /// counts those.
    pub(crate) fn with_discovered(mut self, discovered: &Arc<DiscoveredInterfaces>) -> Self {
        self.discovered = Some(Arc::clone(discovered));
        self
    }

    /// The interfaces of its packets, if they are found while it runs. The queue number of a frame
    /// is the number of its interface then.
    pub(crate) fn discovered(&self) -> Option<&Arc<DiscoveredInterfaces>> {
        self.discovered.as_ref()
    }

    /// Declares that its packets come from several queues, which are also counted one by one.
    pub(crate) fn with_interface_table(mut self, table: Option<Arc<InterfaceTable>>) -> Self {
        self.table = table;
        self
    }

    /// Adds received frames to `batch` while it has room; returns how many. Never blocks.
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

    /// When to ask again after a call that returned nothing.
    ///
    /// # Errors
    /// As [`Receive::readiness`]; or the port was not started for ten seconds.
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

    /// Declares which port it is of, and where that says that it has started.
    pub(super) fn of_port(mut self, port: &Arc<str>, has_started: &Arc<AtomicBool>) -> Self {
        let (port, has_started) = (Arc::clone(port), Arc::clone(has_started));
        self.before_start = Some(BeforeStart { port, has_started, since: None, is_told: false });
        self
    }

    /// No frame older than this (nanoseconds since the Unix epoch) will come any more.
    pub fn watermark(&self) -> u64 {
        self.inner.watermark()
    }

    /// At this time (nanoseconds since the Unix epoch) no frame was on its way here: those to come
    /// were queued after it. Their timestamps may be a little older, because a CPU takes the time
    /// of a packet before it queues it, for which [`Rx::watermark`] allows.
    pub fn empty_at(&self) -> u64 {
        self.inner.empty_at()
    }

    /// Bytes that the kernel has for packets before they are received, if it is known.
    pub fn ring_bytes(&self) -> Option<usize> {
        self.inner.ring_bytes()
    }

    /// The queue's number; `None` for packets that are tied to no queue ([`Class::Other`]).
    pub fn queue(&self) -> Option<u16> {
        self.counters.queue()
    }

    /// The class of its frames.
    pub fn class(&self) -> Class {
        self.counters.class
    }

    /// Its counters, readable from any thread.
    pub fn counters(&self) -> &Arc<RxCounters> {
        &self.counters
    }

    /// Counts packets received here that found no room in a TX queue, as `tx_full`. A program that
    /// forwards by hand calls this for the packets that it drops;
    /// [`Forwarder`](crate::pipeline::Forwarder) does so itself.
    pub fn count_unforwarded(&mut self, packets: u64) {
        self.counters.tx_full.add(packets);
    }

    /// The queues of its packets, if one stream carries several.
    pub(crate) fn interface_table(&self) -> Option<&Arc<InterfaceTable>> {
        self.table.as_ref()
    }

    /// Puts a wrapper around the backend's receiver. A wrapper counts its drops for the end as a
    /// whole.
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
