//! The cursor over a pair of `u32` indices with one producer and one consumer.
//!
//! The cursors do not know where indices and slots are stored. So the same code serves our
//! [`channel`](super::channel) and the rings that a kernel maps into the process (AF_XDP's fill,
//! completion, RX and TX), whose indices have 32 bits.
//!
//! Each side keeps its own index in a register and a cached copy of the other side's index. It
//! reads the shared index only when the cached copy shows too few elements (the watermark).
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::sync::{AtomicU32, Ordering};

/// The producing side of a ring's two indices.
#[derive(Debug)]
pub(crate) struct Producer {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    size: u32,
    /// The next index to write: the shared one, plus the slots written and not yet published.
    next: u32,
    /// The consumer's index when last read, plus `size`: the first index that this side must not
    /// write.
    limit: u32,
}

/// The consuming side of a ring's two indices.
#[derive(Debug)]
pub(crate) struct Consumer {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    size: u32,
    next: u32,
    /// The producer's index when last read: the first index that this side must not read.
    limit: u32,
}

// SAFETY: a cursor is the only one of its side; the indices it points to are atomics that its
// constructor's contract keeps alive, so it may move to another thread.
unsafe impl Send for Producer {}
// SAFETY: as for `Producer`.
unsafe impl Send for Consumer {}

impl Producer {
    /// Starts at the index in `producer`.
    ///
    /// # Safety
    /// Both pointers stay valid while this cursor lives, no other producer exists for them, and
    /// `size` is the power of two that both sides use.
    pub(crate) unsafe fn new(
        producer: NonNull<AtomicU32>,
        consumer: NonNull<AtomicU32>,
        size: u32,
    ) -> Self {
        assert!(size.is_power_of_two(), "a size that is no power of two");
        // SAFETY: valid by contract.
        let (next, seen) = unsafe {
            (producer.as_ref().load(Ordering::Relaxed), consumer.as_ref().load(Ordering::Acquire))
        };
        Self { producer, consumer, size, next, limit: seen.wrapping_add(size) }
    }

    /// How many of `wanted` slots may be written now, starting at [`Producer::slot`].
    #[inline]
    pub(crate) fn reserve(&mut self, wanted: u32) -> u32 {
        let mut free = self.limit.wrapping_sub(self.next);
        if free < wanted {
            // SAFETY: valid by the constructor's contract.
            let seen = unsafe { self.consumer.as_ref() }.load(Ordering::Acquire);
            self.limit = seen.wrapping_add(self.size);
            free = self.limit.wrapping_sub(self.next);
        }
        free.min(wanted)
    }

    /// The slot of the `i`-th reserved element.
    #[inline(always)]
    pub(crate) fn slot(&self, i: u32) -> usize {
        (self.next.wrapping_add(i) & (self.size - 1)) as usize
    }

    /// Publishes the first `n` reserved and written slots.
    #[inline]
    pub(crate) fn publish(&mut self, n: u32) {
        assert!(n <= self.limit.wrapping_sub(self.next), "more than was reserved");
        self.next = self.next.wrapping_add(n);
        // SAFETY: valid by the constructor's contract.
        unsafe { self.producer.as_ref() }.store(self.next, Ordering::Release);
    }
}

impl Consumer {
    /// Starts at the index in `consumer`.
    ///
    /// # Safety
    /// Both pointers stay valid while this cursor lives, no other consumer exists for them, and
    /// `size` is the power of two that both sides use.
    pub(crate) unsafe fn new(
        producer: NonNull<AtomicU32>,
        consumer: NonNull<AtomicU32>,
        size: u32,
    ) -> Self {
        assert!(size.is_power_of_two(), "a size that is no power of two");
        // SAFETY: valid by contract.
        let (next, limit) = unsafe {
            (consumer.as_ref().load(Ordering::Relaxed), producer.as_ref().load(Ordering::Acquire))
        };
        Self { producer, consumer, size, next, limit }
    }

    /// How many of `wanted` elements may be read now, starting at [`Consumer::slot`].
    #[inline]
    pub(crate) fn available(&mut self, wanted: u32) -> u32 {
        let mut ready = self.limit.wrapping_sub(self.next);
        if ready < wanted {
            // SAFETY: valid by the constructor's contract.
            self.limit = unsafe { self.producer.as_ref() }.load(Ordering::Acquire);
            ready = self.limit.wrapping_sub(self.next);
        }
        ready.min(wanted)
    }

    /// The slot of the `i`-th available element.
    #[inline(always)]
    pub(crate) fn slot(&self, i: u32) -> usize {
        (self.next.wrapping_add(i) & (self.size - 1)) as usize
    }

    /// Releases the first `n` available slots.
    #[inline]
    pub(crate) fn release(&mut self, n: u32) {
        assert!(n <= self.limit.wrapping_sub(self.next), "more than there was");
        self.next = self.next.wrapping_add(n);
        // SAFETY: valid by the constructor's contract.
        unsafe { self.consumer.as_ref() }.store(self.next, Ordering::Release);
    }
}
