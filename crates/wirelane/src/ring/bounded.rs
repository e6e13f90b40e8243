//! A bounded ring with bulk operations, for one or many producers and one or many consumers.
//!
//! # How several handles share a side
//!
//! As in DPDK's `rte_ring`, a [`Multi`] side has two indices, on one line:
//!
//! ```text
//!            tail              head
//!             │                 │
//!   ┬───┬───┬─▼─┬───┬───┬───┬───▼───┬
//!   │ published │  A's  │ B's claim │   claim:   move the head by compare-and-swap
//!   ┴───┴───┴───┴───┴───┴───┴───────┴   publish: when the tail is where the claim starts,
//!                                                store its end there
//! ```
//!
//! So batches become visible in the order of their claims, and B waits for A. If A was preempted, B
//! yields the CPU instead of spinning; [`Ring::stats`] counts waits and the handles that caused
//! them. If A releases claimed slots, because a [`Reservation`] is partly filled or dropped, the
//! head moves back. If B has a later claim, A's slots become a hole that consumers skip.
//!
//! # Why no existing crate
//!
//! No crate has a multi-producer ring with bulk operations, reservations or stall detection;
//! crossbeam's `ArrayQueue` takes five to eight times as long per element at 32 per batch. For one
//! producer and one consumer, `rtrb` is about as fast (within a tenth for single elements, a fifth
//! behind at 32 per batch; compared by `cargo bench -p wirelane-bench --bench ring`). It would not
//! replace any code: the cursor also drives rings that a kernel maps, and `Single` is the same code
//! without the compare-and-swap.
#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use super::handle::{RingHandle, RingMemory};
use super::side::{Claim, Indices, Multi, Side, SideView};
use super::slots::Slots;
use super::stats::{End, HandleStats, Registry};
use crate::sync::{Arc, CachePadded, Mutex, Ordering};

/// A view of a ring: its fill level, and the counters of its handles.
///
/// The parameters are the number of handles at each end, [`Single`](super::Single) or [`Multi`]:
/// `P` for the producers, `C` for the consumers. Any thread may use it.
///
/// ```
/// use wirelane::internal::ring::{Multi, Ring, Single};
///
/// let (mut tx, mut rx) = Ring::<u32, Multi, Single>::bounded(256);
/// let mut second = tx.clone(); // only because the side is `Multi`
/// second.enqueue_bulk(&mut vec![1, 2, 3]);
/// tx.enqueue(4).unwrap();
/// let mut got = Vec::new();
/// assert_eq!(rx.dequeue_bulk(&mut got, 32), 4);
/// assert_eq!(got, [1, 2, 3, 4]);
/// ```
///
/// A second handle of a `Single` side, or one handle in two threads, does not compile:
///
/// ```compile_fail,E0599
/// # use wirelane::internal::ring::{Multi, Ring, Single};
/// let (tx, rx) = Ring::<u32, Multi, Single>::bounded(256);
/// let second = rx.clone();
/// ```
///
/// ```compile_fail,E0277
/// # use wirelane::internal::ring::{Multi, Ring, Single};
/// let (tx, rx) = Ring::<u32, Multi, Single>::bounded(256);
/// std::thread::scope(|scope| {
///     scope.spawn(|| tx.len());
/// });
/// ```
pub struct Ring<T, P: Side = Multi, C: Side = Multi> {
    shared: Arc<RingMemory<T>>,
    sides: PhantomData<fn() -> (P, C)>,
}

/// A producer's handle. It is `Send`, but `!Sync`, and `Clone` if the side is [`Multi`].
pub struct Enqueuer<T, P: Side, C: Side> {
    handle: RingHandle<T>,
    sides: PhantomData<fn() -> (P, C)>,
}

/// A consumer's handle. It is `Send`, but `!Sync`, and `Clone` if the side is [`Multi`].
pub struct Dequeuer<T, P: Side, C: Side> {
    handle: RingHandle<T>,
    sides: PhantomData<fn() -> (P, C)>,
}

/// Slots that belong to one producer until it commits them; elements are constructed in place.
///
/// Consumers see its elements only after [`Reservation::commit`], and later reservations only after
/// it: other producers' commits wait for this one. So fill and commit it soon, and do not hold two
/// reservations of one ring in one thread. Dropping a reservation, also in a panic, sends no
/// elements and blocks no producer; leaking one (`mem::forget`) blocks the ring.
pub struct Reservation<'a, T, P: Side, C: Side> {
    enqueuer: &'a mut Enqueuer<T, P, C>,
    claim: Claim,
    written: u64,
}

impl<T: Send, P: Side, C: Side> Ring<T, P, C> {
    /// A ring of at least `capacity` elements (rounded up to a power of two, at most 2³⁰), and its
    /// first two handles.
    pub fn bounded(capacity: usize) -> (Enqueuer<T, P, C>, Dequeuer<T, P, C>) {
        Self::bounded_at(capacity, 0)
    }

    /// A ring whose indices start at `start`. Tests start just before the wrap.
    pub fn bounded_at(capacity: usize, start: u64) -> (Enqueuer<T, P, C>, Dequeuer<T, P, C>) {
        let size = capacity.clamp(1, 1 << 30).next_power_of_two();
        let shared = Arc::new(RingMemory {
            producers: CachePadded(Indices::new(start)),
            consumers: CachePadded(Indices::new(start)),
            slots: CachePadded(Slots::new(size)),
            holes: Mutex::new(Vec::new()),
            registry: Registry::default(),
        });
        let tx = RingHandle::new(&shared, End::Enqueue, SideView::new(start, size as u64));
        let rx = RingHandle::new(&shared, End::Dequeue, SideView::new(start, 0));
        let sides = PhantomData;
        (Enqueuer { handle: tx, sides }, Dequeuer { handle: rx, sides })
    }
}

impl<T, P: Side, C: Side> Ring<T, P, C> {
    /// The most elements that it can hold.
    pub fn capacity(&self) -> usize {
        self.shared.slots.size() as usize
    }

    /// The number of elements in it: published and not yet released by a consumer.
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counters of all handles ever made, in order of creation.
    pub fn stats(&self) -> Vec<HandleStats> {
        self.shared.registry.stats()
    }
}

impl<T: Send, P: Side, C: Side> Enqueuer<T, P, C> {
    /// Moves one element into the ring, or returns it if the ring is full.
    #[inline]
    pub fn enqueue(&mut self, item: T) -> Result<(), T> {
        let Some(claim) = self.claim(1, 1) else { return Err(item) };
        // SAFETY: the slot is claimed.
        unsafe { self.handle.shared.slots.write(claim.start, item) };
        self.publish(claim);
        Ok(())
    }

    /// Moves elements from the front of `items` into the ring while there is room. Returns their
    /// number; the others stay in `items`.
    #[inline]
    pub fn enqueue_bulk(&mut self, items: &mut Vec<T>) -> usize {
        self.enqueue_vec(1, items)
    }

    /// Moves all of `items` into the ring, or none if there is no room for all.
    #[inline]
    pub fn enqueue_exact(&mut self, items: &mut Vec<T>) -> bool {
        let wanted = items.len();
        self.enqueue_vec(wanted, items) == wanted
    }

    /// Copies all of `items` into the ring, or none if there is no room for all.
    #[inline]
    pub fn enqueue_slice(&mut self, items: &[T]) -> bool
    where
        T: Copy,
    {
        let Some(claim) = self.claim(items.len(), items.len()) else { return items.is_empty() };
        // SAFETY: these slots are claimed, and the elements are `Copy`.
        unsafe { self.handle.shared.slots.copy_in(claim.start, items.as_ptr(), items.len()) };
        self.publish(claim);
        true
    }

    /// Reserves up to `wanted` slots; `None` if the ring is full.
    #[inline]
    pub fn reserve(&mut self, wanted: usize) -> Option<Reservation<'_, T, P, C>> {
        let claim = self.claim(1, wanted)?;
        Some(Reservation { enqueuer: self, claim, written: 0 })
    }

    #[inline(always)]
    fn enqueue_vec(&mut self, min: usize, items: &mut Vec<T>) -> usize {
        let wanted = items.len();
        let Some(claim) = self.claim(min.max(1), wanted) else { return 0 };
        let count = claim.count as usize;
        // SAFETY: these slots are claimed. The elements move there: the vector's length is set to
        // 0, and then to the number of elements that stay.
        unsafe {
            self.handle.shared.slots.copy_in(claim.start, items.as_ptr(), count);
            items.set_len(0);
            if count < wanted {
                let first = items.as_mut_ptr();
                first.copy_from(first.add(count), wanted - count);
                items.set_len(wanted - count);
            }
        }
        self.publish(claim);
        count
    }

    #[inline(always)]
    fn claim(&mut self, min: usize, max: usize) -> Option<Claim> {
        let RingHandle { shared, entry, view, .. } = &mut self.handle;
        let size = shared.slots.size();
        let wanted = (min as u64, (max as u64).min(size));
        if wanted.1 == 0 || wanted.0 > wanted.1 {
            return None;
        }
        view.claim::<P>(&shared.producers, &shared.consumers, size, wanted, entry)
    }

    #[inline(always)]
    fn publish(&mut self, claim: Claim) {
        let RingHandle { shared, entry, view, .. } = &mut self.handle;
        view.publish::<P>(&shared.producers, claim, (entry, &shared.registry, End::Enqueue));
    }
}

impl<T, P: Side, C: Side> Enqueuer<T, P, C> {
    /// The index after all published elements. All elements that this handle has enqueued are below
    /// it.
    pub(crate) fn published(&self) -> u64 {
        self.handle.shared.producers.published(Ordering::Acquire)
    }

    /// The ring.
    pub fn ring(&self) -> Ring<T, P, C> {
        Ring { shared: Arc::clone(&self.handle.shared), sides: PhantomData }
    }

    /// The most elements that the ring can hold.
    pub fn capacity(&self) -> usize {
        self.handle.shared.slots.size() as usize
    }

    /// The number of elements in the ring.
    #[inline]
    pub fn len(&self) -> usize {
        self.handle.shared.len()
    }

    /// Whether the ring is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counters of this handle.
    pub fn stats(&self) -> HandleStats {
        self.handle.entry.stats()
    }
}

impl<T: Send, P: Side, C: Side> Dequeuer<T, P, C> {
    /// Takes the oldest element.
    #[inline]
    pub fn dequeue(&mut self) -> Option<T> {
        loop {
            let claim = self.claim(1, 1)?;
            // SAFETY: the slot is claimed, and written unless it is in a hole.
            let read = |index| unsafe { self.handle.shared.slots.read(index) };
            let item = if self.handle.view.holes {
                self.handle.shared.filled(claim).first().map(|run| read(run.start))
            } else {
                Some(read(claim.start))
            };
            self.publish(claim);
            if item.is_some() {
                return item;
            }
        }
    }

    /// Moves up to `max` elements to the end of `into`, oldest first; returns their number.
    #[inline]
    pub fn dequeue_bulk(&mut self, into: &mut Vec<T>, max: usize) -> usize {
        self.dequeue_vec(1, max, into)
    }

    /// Moves `count` elements to the end of `into`, or none if there are fewer. After a partly
    /// committed `Reservation`, it may move fewer.
    #[inline]
    pub fn dequeue_exact(&mut self, into: &mut Vec<T>, count: usize) -> usize {
        self.dequeue_vec(count, count, into)
    }

    #[inline(always)]
    fn dequeue_vec(&mut self, min: usize, max: usize, into: &mut Vec<T>) -> usize {
        // Before the claim, because it may fail.
        into.reserve(max.min(self.capacity()));
        loop {
            let Some(claim) = self.claim(min.max(1), max) else { return 0 };
            let shared = &self.handle.shared;
            let before = into.len();
            let mut take = |run: Claim| {
                let count = run.count as usize;
                // SAFETY: these slots are claimed and written; the vector has room for as many.
                unsafe {
                    shared.slots.copy_out(run.start, into.as_mut_ptr().add(into.len()), count);
                    into.set_len(into.len() + count);
                }
            };
            if self.handle.view.holes {
                shared.filled(claim).into_iter().for_each(take);
            } else {
                take(claim);
            }
            let count = into.len() - before;
            self.publish(claim);
            if count > 0 {
                return count;
            }
        }
    }

    #[inline(always)]
    fn claim(&mut self, min: usize, max: usize) -> Option<Claim> {
        let RingHandle { shared, entry, view, .. } = &mut self.handle;
        let wanted = (min as u64, (max as u64).min(shared.slots.size()));
        if wanted.1 == 0 || wanted.0 > wanted.1 {
            return None;
        }
        view.claim::<C>(&shared.consumers, &shared.producers, 0, wanted, entry)
    }

    #[inline(always)]
    fn publish(&mut self, claim: Claim) {
        let RingHandle { shared, entry, view, .. } = &mut self.handle;
        view.publish::<C>(&shared.consumers, claim, (entry, &shared.registry, End::Dequeue));
    }
}

impl<T, P: Side, C: Side> Dequeuer<T, P, C> {
    /// The ring.
    pub fn ring(&self) -> Ring<T, P, C> {
        Ring { shared: Arc::clone(&self.handle.shared), sides: PhantomData }
    }

    /// The most elements that the ring can hold.
    pub fn capacity(&self) -> usize {
        self.handle.shared.slots.size() as usize
    }

    /// The number of elements in the ring.
    #[inline]
    pub fn len(&self) -> usize {
        self.handle.shared.len()
    }

    /// Whether the ring is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counters of this handle.
    pub fn stats(&self) -> HandleStats {
        self.handle.entry.stats()
    }
}

impl<T: Send, P: Side, C: Side> Reservation<'_, T, P, C> {
    /// The number of reserved slots.
    pub fn capacity(&self) -> usize {
        self.claim.count as usize
    }

    /// The number of written slots.
    pub fn len(&self) -> usize {
        self.written as usize
    }

    /// Whether no slot is written yet.
    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Writes the next slot, or returns the element if all are written.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.written == self.claim.count {
            return Err(item);
        }
        let index = self.claim.start.wrapping_add(self.written);
        // SAFETY: the slot is claimed and not written yet.
        unsafe { self.enqueuer.handle.shared.slots.write(index, item) };
        self.written += 1;
        Ok(())
    }

    /// Publishes the written slots, and releases the others. Returns the number of written slots.
    #[inline]
    pub fn commit(self) -> usize {
        let mut this = ManuallyDrop::new(self);
        let (claim, written) = (this.claim, this.written);
        if written == claim.count {
            this.enqueuer.publish(claim);
        } else {
            this.enqueuer.give_up(claim, written);
        }
        written as usize
    }
}

impl<T, P: Side, C: Side> Enqueuer<T, P, C> {
    /// Publishes the first `written` slots of a claim, and releases the others.
    #[cold]
    fn give_up(&mut self, claim: Claim, written: u64) {
        let RingHandle { shared, entry, view, .. } = &mut self.handle;
        let kept = if shared.producers.unclaim::<P>(claim, written) {
            Claim { count: written, ..claim }
        } else {
            // Others have claimed later slots: consumers must skip the rest of this one.
            let start = claim.start.wrapping_add(written);
            shared.add_hole(Claim { start, count: claim.count - written });
            claim
        };
        if kept.count > 0 {
            view.publish::<P>(&shared.producers, kept, (entry, &shared.registry, End::Enqueue));
        }
    }
}

impl<T, P: Side, C: Side> Drop for Reservation<'_, T, P, C> {
    fn drop(&mut self) {
        /// Releases the slots, even if dropping an element panics.
        struct GiveUp<'a, 'b, T, P: Side, C: Side>(&'a mut Reservation<'b, T, P, C>);
        impl<T, P: Side, C: Side> Drop for GiveUp<'_, '_, T, P, C> {
            fn drop(&mut self) {
                self.0.enqueuer.give_up(self.0.claim, 0);
            }
        }
        let this = GiveUp(self);
        for i in 0..this.0.written {
            let index = this.0.claim.start.wrapping_add(i);
            // SAFETY: the slot is claimed and written, and released afterwards.
            drop(unsafe { this.0.enqueuer.handle.shared.slots.read(index) });
        }
    }
}

impl<T, C: Side> Clone for Enqueuer<T, Multi, C> {
    fn clone(&self) -> Self {
        let RingHandle { shared, view, .. } = &self.handle;
        Self { handle: RingHandle::new(shared, End::Enqueue, view.clone()), sides: PhantomData }
    }
}

impl<T, P: Side> Clone for Dequeuer<T, P, Multi> {
    fn clone(&self) -> Self {
        let RingHandle { shared, view, .. } = &self.handle;
        Self { handle: RingHandle::new(shared, End::Dequeue, view.clone()), sides: PhantomData }
    }
}

impl<T, P: Side, C: Side> Clone for Ring<T, P, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), sides: PhantomData }
    }
}

impl<T, P: Side, C: Side> fmt::Debug for Ring<T, P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (length, capacity) = (self.len(), self.capacity());
        f.debug_struct("Ring").field("len", &length).field("capacity", &capacity).finish()
    }
}
