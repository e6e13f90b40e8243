//! Receiving ends.

use std::cell::Cell;
use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use super::bundle::Bundle;
use super::growing::Growing;
use crate::error::Result;
use crate::frame::Batch;
use crate::mask::Class;
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

/// The receiving end of one queue and class, or, of a capture file, of several of them.
pub struct Rx {
    inner: Box<dyn Receive>,
    counters: Arc<RxCounters>,
    bundle: Option<Arc<Bundle>>,
    growing: Option<Arc<Growing>>,
    not_sync: PhantomData<Cell<()>>,
}

impl Rx {
    /// Wraps a backend's receiver.
    pub fn new(inner: impl Receive + 'static, counters: Arc<RxCounters>) -> Self {
        Self {
            inner: Box::new(inner),
            counters,
            bundle: None,
            growing: None,
            not_sync: PhantomData,
        }
    }

    /// Declares that its packets come from interfaces that are found while it runs. The receiver
    /// counts those.
    pub(crate) fn with_growing(mut self, growing: &Arc<Growing>) -> Self {
        self.growing = Some(Arc::clone(growing));
        self
    }

    /// The interfaces of its packets, if they are found while it runs. The queue number of a frame
    /// is the number of its strand then.
    pub(crate) fn growing(&self) -> Option<&Arc<Growing>> {
        self.growing.as_ref()
    }

    /// Declares that its packets come from several queues, which are also counted one by one.
    pub(crate) fn with_bundle(mut self, bundle: Option<Arc<Bundle>>) -> Self {
        self.bundle = bundle;
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
            if let Some(bundle) = &self.bundle {
                bundle.count(new);
            }
        }
        n
    }

    /// When to ask again after a call that returned nothing.
    ///
    /// # Errors
    /// As [`Receive::readiness`].
    pub fn readiness(&mut self) -> Result<Readiness<'_>> {
        self.inner.readiness()
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
    pub(crate) fn bundle(&self) -> Option<&Arc<Bundle>> {
        self.bundle.as_ref()
    }

    /// Puts a wrapper around the backend's receiver. A wrapper counts its drops for the end as a
    /// whole.
    pub fn wrap<R: Receive + 'static>(
        self,
        wrapper: impl FnOnce(Box<dyn Receive>, Arc<RxCounters>) -> R,
    ) -> Self {
        let inner = Box::new(wrapper(self.inner, Arc::clone(&self.counters)));
        let (counters, growing) = (self.counters, self.growing);
        Self { inner, counters, bundle: None, growing, not_sync: PhantomData }
    }
}
