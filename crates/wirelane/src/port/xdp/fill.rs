//! The fill ring of a queue: the chunks that the kernel receives into.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::queue::XdpQueue;
use crate::frame::Batch;
use crate::pool::{Pool, PoolGauge};
use crate::ring::cursor::Producer;

/// Chunks are handed over in portions of this size.
pub(super) const PORTION: u32 = 64;

/// Keeps the kernel supplied with chunks.
pub(super) struct FillRing {
    fill: Producer,
    pool: Pool,
    /// Chunks that the kernel has, or has filled and the receiver has not taken.
    outstanding: u32,
    portion: Batch,
    /// Dropped after the cursor, which points into it.
    pub(super) queue: Arc<XdpQueue>,
}

impl FillRing {
    /// Fills the ring for the first time.
    ///
    /// # Safety
    /// The queue has no other `FillRing`.
    pub(super) unsafe fn new(queue: Arc<XdpQueue>, pool: Pool) -> Self {
        assert!(pool.region().is_same(&queue.region), "a pool of other memory");
        // SAFETY: by the contract; the queue is dropped after the cursor.
        let fill = unsafe { XdpQueue::producer(&queue.fill) };
        let portion = Batch::new(PORTION as usize);
        let mut ring = Self { fill, pool, outstanding: 0, portion, queue };
        ring.refill();
        ring
    }

    /// The receiver has taken `chunks` filled chunks.
    #[inline(always)]
    pub(super) fn taken(&mut self, chunks: u32) {
        self.outstanding = self.outstanding.saturating_sub(chunks);
    }

    /// Whether the kernel has no chunk to receive into, because all are in use.
    pub(super) fn is_starved(&self) -> bool {
        self.outstanding == 0
    }

    /// Hands over free chunks if there are enough. True if the driver waits for them and must be
    /// woken.
    #[inline]
    pub(super) fn refill(&mut self) -> bool {
        let missing = self.pool.size() - self.outstanding.min(self.pool.size());
        let before = self.outstanding;
        if missing >= PORTION.min(self.pool.size()) {
            self.hand_over();
        }
        self.queue.gauge.receiving.store(self.outstanding, Ordering::Relaxed);
        self.outstanding > before && self.queue.fill.needs_wakeup()
    }

    /// Hands over every free chunk.
    fn hand_over(&mut self) {
        loop {
            let room = self.fill.reserve(PORTION);
            let n = self.pool.take(&mut self.portion, room as usize);
            if n == 0 {
                return;
            }
            let (queue, fill) = (&*self.queue, &self.fill);
            for (i, frame) in (0..).zip(self.portion.drain(n)) {
                // SAFETY: of the queue's region, as `new` has checked.
                let chunk = unsafe { queue.region.lend(frame, queue.receiving, 1) };
                // SAFETY: one of the reserved slots of this ring.
                unsafe { queue.fill.write(fill.slot(i), chunk) };
            }
            self.fill.publish(n as u32);
            self.outstanding += n as u32;
        }
    }

    /// The pool's counts, for other threads.
    pub(super) fn pool_gauge(&self) -> PoolGauge {
        self.pool.gauge()
    }

    /// Returns the pool, for another attempt.
    pub(super) fn into_pool(self) -> Pool {
        self.pool
    }
}
