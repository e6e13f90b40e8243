//! Transmitting ends.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::frame::{Batch, Frame};
use crate::port::steering::xps_binding::XpsBinding;
use crate::segment::SegmentCounters;
use crate::stats::TxCounters;

/// What a backend implements for transmitting.
pub trait Transmit: Send {
    /// Takes frames from the front of `batch`; returns how many. Frames that do not fit stay.
    /// Frames of another port's memory are copied.
    fn transmit(&mut self, batch: &mut Batch) -> usize;

    /// Lets `write` put packets straight into TX memory, behind everything taken before. Each call
    /// writes one packet and returns its length, or `None` to end; a lack of room ends it too.
    /// Returns the number of packets, or `None` if the port has no such memory. Their checksums
    /// must be complete.
    fn place(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> Option<usize> {
        let _ = write;
        None
    }

    /// Adds up to `n` empty frames of the port's own memory to `batch`; they can be transmitted
    /// without a copy. Returns how many.
    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize;

    /// Adds transmitted frames to `batch` while it has room, each stamped with the time at which it
    /// left; returns how many. Only a port opened with timestamps keeps them.
    fn sent(&mut self, batch: &mut Batch) -> usize {
        let _ = batch;
        0
    }

    /// Frames leave by the end's queue only if they are sent from one of the CPUs of `place`:
    /// counts the others as [`TxCounters::strayed`]. The calling thread, if it is the one that
    /// sends, goes back to its own before it sends from elsewhere. Follows what becomes new about
    /// the place.
    fn bind(&mut self, place: XpsBinding) {
        let _ = place;
    }

    /// Makes sure that what was taken is on its way, and reclaims what has been transmitted.
    ///
    /// # Errors
    /// The interface went away or the system refuses.
    fn flush(&mut self) -> Result<()>;

    /// Frames taken and not yet transmitted. Dropping the [`Tx`] flushes a few times and counts the
    /// rest as errors.
    fn pending(&self) -> usize;

    /// Waits until there is room again, at most `timeout`.
    ///
    /// # Errors
    /// As [`Transmit::flush`].
    fn wait(&mut self, timeout: Duration) -> Result<()>;
}

/// The transmitting end of one queue.
///
/// It completes partial checksums before it passes frames on, unless the backend takes them as they
/// are. A frame that it cannot complete is an error, counted as `unfinished`.
///
/// Dropping it sends what it has taken for a fifth of a second, as [`Tx::drain`] does, and counts
/// the rest as errors: every frame taken is counted as sent or as an error.
pub struct Tx {
    pub(super) inner: Box<dyn Transmit>,
    pub(super) counters: Arc<TxCounters>,
    /// What a segmenter before it cut.
    segments: Option<Arc<SegmentCounters>>,
    /// The backend takes only finished frames.
    finishes: bool,
    /// Frames taken and not sent that are counted as errors already.
    pub(super) lost: usize,
    not_sync: PhantomData<Cell<()>>,
}

impl Tx {
    /// Wraps a backend's transmitter.
    pub fn new(inner: impl Transmit + 'static, counters: Arc<TxCounters>) -> Self {
        Self {
            inner: Box::new(inner),
            counters,
            segments: None,
            finishes: true,
            lost: 0,
            not_sync: PhantomData,
        }
    }

    /// Declares whether the backend, or the wrapper around it, takes and finishes frames with
    /// pending offloads ([`Frame::offload`](crate::Frame::offload)).
    #[must_use]
    pub fn takes_offloads(mut self, takes: bool) -> Self {
        self.finishes = !takes;
        self
    }

    /// Says what the wrapper around the backend cuts.
    #[must_use]
    pub(super) fn with_segments(mut self, segments: Arc<SegmentCounters>) -> Self {
        self.segments = Some(segments);
        self
    }

    /// Takes frames from the front of `batch`; returns how many. Frames that do not fit stay. Never
    /// blocks.
    #[inline]
    pub fn transmit(&mut self, batch: &mut Batch) -> usize {
        let refused = if self.finishes { self.finish(batch) } else { 0 };
        refused + self.inner.transmit(batch)
    }

    /// Completes checksums. Removes the frames that cannot be completed, and returns their number.
    #[inline]
    fn finish(&self, batch: &mut Batch) -> usize {
        if !batch.iter().any(Frame::is_unfinished) {
            return 0;
        }
        let before = batch.len();
        batch.retain(|frame| !frame.is_unfinished() || frame.finish());
        let refused = before - batch.len();
        if refused > 0 {
            self.counters.unfinished.add(refused as u64);
            self.counters.errors.add(refused as u64);
        }
        refused
    }

    /// Lets `write` put packets straight into TX memory, as [`Transmit::place`] says: for programs
    /// that make packets. `None` if the port has no such memory; then [`Tx::allocate`] has frames.
    #[inline]
    pub fn place(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> Option<usize> {
        self.inner.place(write)
    }

    /// Adds up to `n` empty frames of the port's own memory to `batch`; returns how many.
    #[inline]
    pub fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.inner.allocate(batch, n)
    }

    /// Adds transmitted frames to `batch` while it has room; returns how many. The
    /// [`timestamp`](crate::Frame::timestamp) of each is the time at which it left. Only ports such
    /// as `xdp:eth0?tx_timestamps=on` keep them; frames not taken in time return to their pools.
    #[inline]
    pub fn sent(&mut self, batch: &mut Batch) -> usize {
        self.inner.sent(batch)
    }

    /// Sets the CPUs whose frames leave by its queue ([`XpsBindings`](super::XpsBindings)). Frames
    /// that are sent from another CPU are counted as [`TxCounters::strayed`]. If one of the CPUs is
    /// the calling thread's own, it goes back there first, whoever has moved it.
    pub fn bind(&mut self, binding: XpsBinding) {
        self.inner.bind(binding);
    }

    /// Makes sure that what was taken is on its way, and reclaims what has been transmitted.
    ///
    /// # Errors
    /// As [`Transmit::flush`].
    pub fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }

    /// Frames taken and not yet transmitted.
    #[inline]
    pub fn pending(&self) -> usize {
        self.inner.pending()
    }

    /// Waits until there is room again, at most `timeout`.
    ///
    /// # Errors
    /// As [`Transmit::wait`].
    pub fn wait(&mut self, timeout: Duration) -> Result<()> {
        self.inner.wait(timeout)
    }

    /// The queue's number.
    pub fn queue(&self) -> u16 {
        self.counters.queue
    }

    /// Its counters, readable from any thread.
    pub fn counters(&self) -> &Arc<TxCounters> {
        &self.counters
    }

    /// What the segmenter of [`Port::tx_cutting`](super::Port::tx_cutting) cut, if there is one.
    pub fn segments(&self) -> Option<&Arc<SegmentCounters>> {
        self.segments.as_ref()
    }

    /// Puts a wrapper around the backend's transmitter.
    pub fn wrap<T: Transmit + 'static>(
        mut self,
        wrapper: impl FnOnce(Box<dyn Transmit>, Arc<TxCounters>) -> T,
    ) -> Self {
        let inner = std::mem::replace(&mut self.inner, Box::new(Vacant));
        self.inner = Box::new(wrapper(inner, Arc::clone(&self.counters)));
        self
    }
}

/// The placeholder of a transmitter that was taken out.
struct Vacant;

impl Transmit for Vacant {
    fn transmit(&mut self, _batch: &mut Batch) -> usize {
        0
    }

    fn allocate(&mut self, _batch: &mut Batch, _n: usize) -> usize {
        0
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn pending(&self) -> usize {
        0
    }

    fn wait(&mut self, _timeout: Duration) -> Result<()> {
        Ok(())
    }
}
