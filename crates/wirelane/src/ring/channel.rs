//! A bounded channel between two threads, based on the [cursor](super::cursor).
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use super::cursor::{Consumer, Producer};
use crate::sync::{Arc, AtomicBool, AtomicU32, CachePadded, Ordering, UnsafeCell};

/// The ring of a [`channel`]: indices on separate cache lines, then the slots.
struct ChannelMemory<T> {
    producer: CachePadded<AtomicU32>,
    consumer: CachePadded<AtomicU32>,
    closed: CachePadded<AtomicBool>,
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is touched only by the side whose index range covers it, and changes sides
// through a release store that the other side reads with acquire.
unsafe impl<T: Send> Send for ChannelMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for ChannelMemory<T> {}

/// The sending end of a bounded single-producer single-consumer [`channel`].
pub struct Sender<T> {
    cursor: Producer,
    shared: Arc<ChannelMemory<T>>,
}

/// The receiving end of a bounded single-producer single-consumer [`channel`].
pub struct Receiver<T> {
    cursor: Consumer,
    shared: Arc<ChannelMemory<T>>,
}

/// A lock-free channel of at least `capacity` elements (rounded up to a power of two, at most 2³⁰).
pub fn channel<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    channel_at(capacity, 0)
}

/// A channel whose indices start at `start`. Tests start just before the wrap.
pub(super) fn channel_at<T: Send>(capacity: usize, start: u32) -> (Sender<T>, Receiver<T>) {
    let size = capacity.clamp(1, 1 << 30).next_power_of_two() as u32;
    let shared = Arc::new(ChannelMemory {
        producer: CachePadded(AtomicU32::new(start)),
        consumer: CachePadded(AtomicU32::new(start)),
        closed: CachePadded(AtomicBool::new(false)),
        slots: (0..size).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
    });
    let (producer, consumer) =
        (NonNull::from(&shared.producer.0), NonNull::from(&shared.consumer.0));
    // SAFETY: both ends hold the `Arc` that owns the indices, and there is one end of each kind.
    let (tx, rx) = unsafe {
        (Producer::new(producer, consumer, size), Consumer::new(producer, consumer, size))
    };
    (Sender { cursor: tx, shared: Arc::clone(&shared) }, Receiver { cursor: rx, shared })
}

impl<T: Send> Sender<T> {
    /// Moves elements from the front of `items` into the ring while there is room. Returns their
    /// number; the others stay in `items`.
    pub fn send(&mut self, items: &mut Vec<T>) -> usize {
        let n = self.cursor.reserve(u32::try_from(items.len()).unwrap_or(u32::MAX));
        for (i, item) in items.drain(..n as usize).enumerate() {
            // SAFETY: the slot is reserved, so the consumer does not touch it.
            self.shared.slots[self.cursor.slot(i as u32)]
                .with_mut(|slot| unsafe { slot.write(MaybeUninit::new(item)) });
        }
        if n > 0 {
            self.cursor.publish(n);
        }
        n as usize
    }

    /// Moves one element into the ring, or returns it if the ring is full.
    pub fn send_one(&mut self, item: T) -> Result<(), T> {
        if self.cursor.reserve(1) == 0 {
            return Err(item);
        }
        // SAFETY: the slot is reserved, so the consumer does not touch it.
        self.shared.slots[self.cursor.slot(0)]
            .with_mut(|slot| unsafe { slot.write(MaybeUninit::new(item)) });
        self.cursor.publish(1);
        Ok(())
    }

    /// The number of elements that fit now, up to `wanted`.
    pub fn room(&mut self, wanted: usize) -> usize {
        self.cursor.reserve(u32::try_from(wanted).unwrap_or(u32::MAX)) as usize
    }

    /// The most elements that the ring can hold.
    pub fn capacity(&self) -> usize {
        self.shared.slots.len()
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

impl<T: Send> Receiver<T> {
    /// Moves up to `max` elements to the end of `into`, oldest first; returns their number.
    pub fn receive(&mut self, into: &mut Vec<T>, max: usize) -> usize {
        let n = self.cursor.available(u32::try_from(max).unwrap_or(u32::MAX));
        into.reserve(n as usize);
        for i in 0..n {
            // SAFETY: the slot is available: the producer has written it and will not touch it
            // before it is released. It is released below, so it is read once.
            let item = self.shared.slots[self.cursor.slot(i)]
                .with(|slot| unsafe { slot.read().assume_init() });
            into.push(item);
        }
        if n > 0 {
            self.cursor.release(n);
        }
        n as usize
    }

    /// Whether at least one element is ready.
    pub fn is_ready(&mut self) -> bool {
        self.cursor.available(1) > 0
    }

    /// Whether the sender is gone and all its elements have been received.
    pub fn is_finished(&mut self) -> bool {
        // The order matters: elements sent before the close are visible once the close is.
        self.shared.closed.load(Ordering::Acquire) && self.cursor.available(1) == 0
    }
}

impl<T> Drop for ChannelMemory<T> {
    fn drop(&mut self) {
        let (mut at, end) =
            (self.consumer.load(Ordering::Relaxed), self.producer.load(Ordering::Relaxed));
        while at != end {
            let slot = at as usize & (self.slots.len() - 1);
            // SAFETY: both ends are gone; slots between the indices hold initialised elements.
            self.slots[slot].with_mut(|slot| unsafe { (*slot).assume_init_drop() });
            at = at.wrapping_add(1);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use wirelane_testkit::oracle::{self, FifoUnderTest};

    struct Channel((Sender<u64>, Receiver<u64>));

    impl FifoUnderTest for Channel {
        fn push_bulk(&mut self, items: &[u64]) -> usize {
            self.0.0.send(&mut items.to_vec())
        }

        fn pop_bulk(&mut self, into: &mut Vec<u64>, max: usize) -> usize {
            self.0.1.receive(into, max)
        }
    }

    #[test]
    fn behaves_like_a_fifo_near_the_wrap() {
        for seed in 0..if cfg!(miri) { 1 } else { 8 } {
            oracle::check(seed, |start, capacity| Channel(channel_at(capacity, start)));
        }
    }

    #[test]
    fn what_is_left_is_dropped_once() {
        let element = std::sync::Arc::new(());
        let (mut tx, mut rx) = channel_at(4, u32::MAX - 1);
        assert_eq!(tx.send(&mut vec![std::sync::Arc::clone(&element); 6]), 4);
        assert_eq!(rx.receive(&mut Vec::new(), 1), 1);
        drop((tx, rx));
        assert_eq!(std::sync::Arc::strong_count(&element), 1);
    }

    #[test]
    fn the_end_comes_after_the_last_element() {
        let (mut tx, mut rx) = channel(2);
        tx.send(&mut vec![1]);
        assert!(!rx.is_finished());
        drop(tx);
        assert!(!rx.is_finished() && rx.is_ready());
        rx.receive(&mut Vec::new(), 8);
        assert!(rx.is_finished());
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::{Doorbell, thread};

    /// Every interleaving of a full ring of two that wraps: all elements, once, in order.
    #[test]
    fn loom_channel_keeps_order() {
        loom::model(|| {
            let (mut tx, mut rx) = channel_at(2, u32::MAX);
            let producer = thread::spawn(move || {
                let mut items = vec![1, 2, 3];
                while !items.is_empty() {
                    if tx.send(&mut items) == 0 {
                        thread::yield_now();
                    }
                }
            });
            let mut got = Vec::new();
            while !rx.is_finished() {
                if rx.receive(&mut got, 2) == 0 {
                    thread::yield_now();
                }
            }
            producer.join().unwrap();
            assert_eq!(got, [1, 2, 3]);
        });
    }

    /// A sleeper never misses an element that was sent while it fell asleep.
    #[test]
    fn loom_doorbell_loses_no_wakeup() {
        loom::model(|| {
            let (mut tx, mut rx) = channel(2);
            let bell = Arc::new(Doorbell::new(thread::current()));
            let producer = {
                let bell = Arc::clone(&bell);
                thread::spawn(move || {
                    tx.send(&mut vec![7]);
                    bell.ring();
                })
            };
            while !rx.is_ready() {
                bell.sleep(|| rx.is_ready());
            }
            producer.join().unwrap();
            assert_eq!(rx.receive(&mut Vec::new(), 1), 1);
        });
    }
}
