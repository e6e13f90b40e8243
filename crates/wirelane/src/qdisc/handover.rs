//! The heart of [`super::lockless`]: bypass, ring and runner, generic over the item, so that loom
//! explores the code that moves frames.
#![allow(unsafe_code)]

use super::run::{QUOTA, RunBit};
use crate::ring::{Dequeuer, Enqueuer, Multi, Ring, Single};
use crate::sync::{Counter, Mutex, UnsafeCell};

/// A batch of items: frames, or numbers in a model.
pub(super) trait Container {
    type Item: Send;

    fn items(&mut self) -> &mut Vec<Self::Item>;
}

/// The environment of the hand-over.
pub(super) trait Host {
    type Batch: Container;

    /// Puts all of `batch` into the ring. Drops and counts items that do not fit.
    fn enqueue(&mut self, batch: &mut Self::Batch);

    /// Hands frames from the front of `batch` to the TX ring. Frames that do not fit stay in
    /// `batch`. Only the runner calls it.
    fn transmit(&mut self, batch: &mut Self::Batch, way: TxRoute);

    /// Whether the TX ring is full.
    fn is_stopped(&self) -> bool;
}

/// The path of frames to the TX ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TxRoute {
    /// Bypassing the empty ring.
    Bypass,
    /// Through the ring.
    Ring,
}

/// A producer's end of the ring.
pub(super) type Input<T> = Enqueuer<T, Multi, Single>;

/// The ring, and the right to drain it.
pub(super) struct HandOver<B: Container> {
    run: RunBit,
    inner: UnsafeCell<Runner<B>>,
    /// The number of frames in the stash, written by the runner.
    stashed: Counter,
    ring: Ring<B::Item, Multi, Single>,
    /// The end that producers' ends are cloned from.
    first: Mutex<Input<B::Item>>,
}

/// The runner's state.
struct Runner<B: Container> {
    output: Dequeuer<B::Item, Multi, Single>,
    /// Frames taken from the ring that the TX ring did not accept. They are older than all frames
    /// in the ring.
    stash: B,
}

// SAFETY: only the holder of the running bit accesses `inner`, and the bit is passed on with
// release and acquire; all other fields are made for sharing.
unsafe impl<B: Container + Send> Sync for HandOver<B> {}

impl<B: Container> HandOver<B> {
    /// A ring for `capacity` frames. Only a power of two is exact.
    pub(super) fn new(capacity: usize, stash: B) -> Self {
        let (first, output) = Ring::bounded(capacity);
        Self {
            run: RunBit::new(),
            inner: UnsafeCell::new(Runner { output, stash }),
            stashed: Counter::default(),
            ring: first.ring(),
            first: Mutex::new(first),
        }
    }

    /// An end for one more producer.
    pub(super) fn input(&self) -> Input<B::Item> {
        self.first.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub(super) fn ring(&self) -> &Ring<B::Item, Multi, Single> {
        &self.ring
    }

    /// Waiting frames, without those that a runner is moving.
    pub(super) fn len(&self) -> usize {
        self.ring.len() + self.stashed()
    }

    /// Frames taken from the ring that the TX ring did not accept.
    #[inline(always)]
    pub(super) fn stashed(&self) -> usize {
        self.stashed.value() as usize
    }

    /// Sends `batch`: directly if `bypass` is set, the ring is empty and no producer is running;
    /// otherwise through the ring. `out` is the producer's own buffer for frames taken from the
    /// ring, and is empty before and after.
    #[inline]
    pub(super) fn send<H: Host<Batch = B>>(
        &self,
        host: &mut H,
        batch: &mut B,
        out: &mut B,
        bypass: bool,
    ) {
        if bypass && self.run.try_begin() {
            // SAFETY: this thread is the runner.
            if unsafe { self.is_drained() } && !host.is_stopped() {
                host.transmit(batch, TxRoute::Bypass);
                if batch.items().is_empty() {
                    if !self.run.end() {
                        self.drain_and_end(host, out, QUOTA);
                    }
                    return;
                }
            }
            host.enqueue(batch);
            self.drain_and_end(host, out, QUOTA);
        } else {
            host.enqueue(batch);
            if self.run.begin() {
                self.drain_and_end(host, out, QUOTA);
            }
        }
    }

    /// Drains the ring into the TX ring unless that is full, calls `after`, and drains again if
    /// that made room. If another producer is the runner, makes it look again, and does not call
    /// `after`.
    pub(super) fn run<H: Host<Batch = B>>(
        &self,
        host: &mut H,
        out: &mut B,
        mut after: impl FnMut(&mut H) -> bool,
    ) {
        if !self.run.begin() {
            return;
        }
        loop {
            self.drain(host, out, usize::MAX);
            if after(host) {
                self.drain(host, out, usize::MAX);
            }
            if self.run.end() {
                return;
            }
        }
    }

    /// Waits until there is no runner, runs `act` as the runner, and then drains frames that
    /// arrived during it.
    pub(super) fn exclusive<H: Host<Batch = B>>(
        &self,
        host: &mut H,
        out: &mut B,
        act: impl FnOnce(),
    ) {
        self.run.acquire();
        act();
        if !self.run.end() {
            self.drain_and_end(host, out, QUOTA);
        }
    }

    /// Moves up to `max` of the oldest frames to the end of `into`; returns their number. Waits
    /// until there is no runner.
    pub(super) fn take(&self, into: &mut Vec<B::Item>, max: usize) -> usize {
        self.run.acquire();
        let taken = self.inner.with_mut(|inner| {
            // SAFETY: this thread is the runner.
            let inner = unsafe { &mut *inner };
            let first = inner.stash.items().len().min(max);
            into.extend(inner.stash.items().drain(..first));
            self.stashed.set(inner.stash.items().len() as u64);
            first + inner.output.dequeue_bulk(into, max - first)
        });
        // Frames that arrived during this are still in the ring; their producer's next call drains
        // them.
        self.run.abandon();
        taken
    }

    /// Whether no waiting frame is older than frames that the caller sends now.
    ///
    /// # Safety
    /// The caller runs.
    #[inline(always)]
    unsafe fn is_drained(&self) -> bool {
        self.inner.with(|inner| {
            // SAFETY: by contract.
            unsafe { (*inner).output.is_empty() && self.stashed.value() == 0 }
        })
    }

    /// Drains until the ring is empty, the TX ring is full or `quota` frames were moved, and then
    /// stops running.
    fn drain_and_end<H: Host<Batch = B>>(&self, host: &mut H, out: &mut B, quota: usize) {
        let mut left = quota;
        loop {
            left = self.drain(host, out, left);
            if left == 0 {
                return self.run.abandon();
            }
            if self.run.end() {
                return;
            }
        }
    }

    /// Moves frames to the TX ring, and returns the rest of `quota`. The caller must be the runner.
    fn drain<H: Host<Batch = B>>(&self, host: &mut H, out: &mut B, quota: usize) -> usize {
        let mut left = quota;
        while left > 0 && !host.is_stopped() {
            let taken = self.inner.with_mut(|inner| {
                // SAFETY: the caller is the runner.
                let inner = unsafe { &mut *inner };
                if self.stashed.value() > 0 {
                    out.items().append(inner.stash.items());
                    self.stashed.set(0);
                    return out.items().len();
                }
                let room = out.items().capacity();
                inner.output.dequeue_bulk(out.items(), room)
            });
            if taken == 0 {
                break;
            }
            host.transmit(out, TxRoute::Ring);
            left = left.saturating_sub(taken);
            if !out.items().is_empty() {
                self.stashed.set(out.items().len() as u64);
                self.inner.with_mut(|inner| {
                    // SAFETY: the caller is the runner.
                    unsafe { (*inner).stash.items().append(out.items()) }
                });
            }
        }
        left
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::{Arc, AtomicBool, Ordering, thread};

    impl Container for Vec<u32> {
        type Item = u32;

        fn items(&mut self) -> &mut Vec<u32> {
            self
        }
    }

    /// A TX ring that takes `room` numbers, under loom's eyes: two runners at once would show.
    struct Sink {
        taken: UnsafeCell<Vec<u32>>,
        room: usize,
        stopped: AtomicBool,
    }

    struct Model<'a> {
        input: &'a mut Input<u32>,
        sink: &'a Sink,
    }

    impl Host for Model<'_> {
        type Batch = Vec<u32>;

        fn enqueue(&mut self, batch: &mut Vec<u32>) {
            self.input.enqueue_bulk(batch);
            assert!(batch.is_empty(), "the ring is large enough");
        }

        fn transmit(&mut self, batch: &mut Vec<u32>, _: TxRoute) {
            self.sink.taken.with_mut(|taken| {
                // SAFETY: only the runner gets here; loom checks that.
                let taken = unsafe { &mut *taken };
                let n = batch.len().min(self.sink.room - taken.len());
                taken.extend(batch.drain(..n));
            });
            if !batch.is_empty() {
                self.sink.stopped.store(true, Ordering::Relaxed);
            }
        }

        fn is_stopped(&self) -> bool {
            self.sink.stopped.load(Ordering::Relaxed)
        }
    }

    type Shared = Arc<(HandOver<Vec<u32>>, Sink)>;

    fn produce(shared: &Shared, batches: &[&[u32]], bypass: bool) {
        let mut input = shared.0.input();
        let mut host = Model { input: &mut input, sink: &shared.1 };
        let mut out = Vec::with_capacity(4);
        for batch in batches {
            shared.0.send(&mut host, &mut batch.to_vec(), &mut out, bypass);
        }
    }

    /// Two producers: no item is stranded, lost or doubled, and each producer's order holds.
    /// Exhaustive with `preemptions` of `None`.
    fn model(
        (first, second): (&'static [&'static [u32]], &'static [&'static [u32]]),
        bypass: bool,
        room: usize,
        preemptions: Option<usize>,
    ) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions;
        builder.check(move || {
            let sink =
                Sink { taken: UnsafeCell::new(Vec::new()), room, stopped: AtomicBool::new(false) };
            let shared: Shared = Arc::new((HandOver::new(8, Vec::with_capacity(4)), sink));
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || produce(&shared, second, bypass))
            };
            produce(&shared, first, bypass);
            other.join().unwrap();
            // SAFETY: the other thread has ended.
            let mut all = shared.1.taken.with(|taken| unsafe { (*taken).clone() });
            let (first, second) = (first.concat(), second.concat());
            assert_eq!(all.len(), room.min(first.len() + second.len()), "stuck");
            shared.0.take(&mut all, 8);
            let of = |tens: u32| all.iter().copied().filter(|n| n / 10 == tens).collect::<Vec<_>>();
            assert_eq!(of(0), first);
            assert_eq!(of(1), second);
        });
    }

    const ONE_BATCH: (&[&[u32]], &[&[u32]]) = (&[&[1, 2]], &[&[11]]);
    const TWO_BATCHES: (&[&[u32]], &[&[u32]]) = (&[&[1, 2], &[3]], &[&[11], &[12]]);

    #[test]
    fn loom_bypass_hands_over() {
        model(ONE_BATCH, true, usize::MAX, None);
        model(TWO_BATCHES, true, usize::MAX, Some(3));
    }

    #[test]
    fn loom_ring_hands_over() {
        model(ONE_BATCH, false, usize::MAX, None);
        model(TWO_BATCHES, false, usize::MAX, Some(3));
    }

    /// As above with a TX ring that becomes full on the way.
    #[test]
    fn loom_full_ring_keeps_order() {
        model(ONE_BATCH, true, 2, None);
        model(TWO_BATCHES, true, 2, Some(3));
    }
}
