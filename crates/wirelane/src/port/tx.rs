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

/// The transmitter of a backend.
pub trait Transmit: Send {
    /// Takes frames from the front of `batch`; returns their number. Frames that do not fit remain.
    /// Frames in another port's memory are copied.
    fn transmit(&mut self, batch: &mut Batch) -> usize;

    /// Lets `write` write packets directly into TX memory, after all frames taken before. Each call
    /// writes one packet and returns its length, or `None` to stop. A lack of room also stops it.
    /// Returns the number of packets, or `None` if the port has no such memory. The packets must
    /// have complete checksums.
    fn place(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> Option<usize> {
        let _ = write;
        None
    }

    /// Adds up to `n` empty frames of the port's memory to `batch`; they can be transmitted without
    /// a copy. Returns their number.
    fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize;

    /// Adds transmitted frames to `batch` while it has room, each stamped with its transmission
    /// time; returns their number. Only a port opened with timestamps keeps them.
    fn sent(&mut self, batch: &mut Batch) -> usize {
        let _ = batch;
        0
    }

    /// Sets the CPUs whose frames use this end's queue. Frames sent from other CPUs are counted as
    /// [`TxCounters::strayed`]. If `place` has a CPU for the calling thread, the thread returns to
    /// it before it sends from elsewhere. Later changes of `place` are followed.
    #[doc(hidden)]
    fn bind(&mut self, place: XpsBinding) {
        let _ = place;
    }

    /// Starts transmission of all frames taken, and reclaims transmitted frames.
    ///
    /// # Errors
    /// The interface was removed or the system refuses.
    fn flush(&mut self) -> Result<()>;

    /// Frames taken and not transmitted yet. Dropping the [`Tx`] flushes for 200 ms and counts the
    /// rest as errors.
    fn pending(&self) -> usize;

    /// Waits at most `timeout` until there is room.
    ///
    /// # Errors
    /// As [`Transmit::flush`].
    fn wait(&mut self, timeout: Duration) -> Result<()>;
}

/// The transmitting end of one queue.
///
/// It completes partial checksums before it passes frames on, unless the backend accepts partial
/// checksums. A frame that it cannot complete is counted as an error and as `unfinished`.
///
/// Dropping it sends the frames taken for up to 200 ms, as [`Tx::drain`] does, and counts the rest
/// as errors. So every frame taken is counted as sent or as an error.
pub struct Tx {
    pub(super) inner: Box<dyn Transmit>,
    pub(super) counters: Arc<TxCounters>,
    /// The work of a segmenter in front of the backend.
    segments: Option<Arc<SegmentCounters>>,
    /// The backend accepts only frames with complete checksums.
    finishes: bool,
    /// Frames taken and not sent that are already counted as errors.
    pub(super) lost: usize,
    not_sync: PhantomData<Cell<()>>,
}

impl Tx {
    /// Wraps a backend's transmitter.
    #[doc(hidden)]
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

    /// Declares whether the backend, or the wrapper around it, accepts and completes frames with
    /// pending offloads ([`Frame::offload`](crate::Frame::offload)).
    #[must_use]
    #[doc(hidden)]
    pub fn takes_offloads(mut self, takes: bool) -> Self {
        self.finishes = !takes;
        self
    }

    /// Sets the counters of the segmenter around the backend.
    #[must_use]
    pub(super) fn with_segments(mut self, segments: Arc<SegmentCounters>) -> Self {
        self.segments = Some(segments);
        self
    }

    /// Takes frames from the front of `batch`; returns their number. Frames that do not fit remain.
    /// Never blocks.
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

    /// Lets `write` write packets directly into TX memory: see [`Transmit::place`]. For programs
    /// that create packets. `None` if the port has no such memory; use [`Tx::allocate`] then.
    #[inline]
    pub fn place(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> Option<usize> {
        self.inner.place(write)
    }

    /// Adds up to `n` empty frames of the port's memory to `batch`; returns their number.
    #[inline]
    pub fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        self.inner.allocate(batch, n)
    }

    /// Adds transmitted frames to `batch` while it has room; returns their number. The
    /// [`timestamp`](crate::Frame::timestamp) of each is its transmission time. Only ports such as
    /// `xdp:eth0?tx_timestamps=on` keep them. Frames not taken in time return to their pools.
    #[inline]
    pub fn sent(&mut self, batch: &mut Batch) -> usize {
        self.inner.sent(batch)
    }

    /// Sets the CPUs whose frames leave by its queue ([`XpsBindings`](super::XpsBindings)). Frames
    /// sent from another CPU are counted as [`TxCounters::strayed`]. If the binding has a CPU for
    /// the calling thread, the thread returns to that CPU before it sends.
    #[doc(hidden)]
    pub fn bind(&mut self, binding: XpsBinding) {
        self.inner.bind(binding);
    }

    /// Starts transmission of all frames taken, and reclaims transmitted frames.
    ///
    /// # Errors
    /// As [`Transmit::flush`].
    pub fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }

    /// Frames taken and not transmitted yet.
    #[inline]
    pub fn pending(&self) -> usize {
        self.inner.pending()
    }

    /// Waits at most `timeout` until there is room.
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
    #[doc(hidden)]
    pub fn counters(&self) -> &Arc<TxCounters> {
        &self.counters
    }

    /// The work of the segmenter of [`Port::tx_segmenting`](super::Port::tx_segmenting), if there
    /// is one.
    #[doc(hidden)]
    pub fn segments(&self) -> Option<&Arc<SegmentCounters>> {
        self.segments.as_ref()
    }

    /// Wraps the backend's transmitter.
    #[doc(hidden)]
    pub fn wrap<T: Transmit + 'static>(
        mut self,
        wrapper: impl FnOnce(Box<dyn Transmit>, Arc<TxCounters>) -> T,
    ) -> Self {
        let inner = std::mem::replace(&mut self.inner, Box::new(Vacant));
        self.inner = Box::new(wrapper(inner, Arc::clone(&self.counters)));
        self
    }
}

/// Placeholder for a transmitter that was taken out.
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
