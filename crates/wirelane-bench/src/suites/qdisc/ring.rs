//! The cost of an element in a ring, measured in the same way as by DPDK's `ring_perf_autotest`
//! (`app/test/test_ring_perf.c`), so that the figures are comparable.
//!
//! All loops are generic over closures, so that other rings use the same loops.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_os::affinity;

use wirelane::internal::ring::{Dequeuer, Enqueuer, Multi, Ring, Side};

/// Slots of every ring that is measured; `RING_SIZE` of DPDK's test.
pub const SLOTS: usize = 4096;

/// Nanoseconds per element with one producer on CPU 0 and one consumer on CPU 1: the sum of both
/// times, as in DPDK's test.
///
/// Each closure moves some elements and returns their number; after 0 it pauses and tries again.
/// Both must move `elements` in all, or this does not return.
pub fn two_cores(
    elements: usize,
    enqueue: impl FnMut() -> usize + Send,
    dequeue: impl FnMut() -> usize + Send,
) -> f64 {
    let start = Barrier::new(2);
    let total: f64 = thread::scope(|scope| {
        let consumer = scope.spawn(|| move_all(1, &start, elements, dequeue));
        let producer = scope.spawn(|| move_all(0, &start, elements, enqueue));
        [producer, consumer].into_iter().filter_map(|thread| thread.join().ok()).sum()
    });
    total / elements as f64
}

/// Nanoseconds per turn of one thread on CPU 0: the median of 64 parts, so that one in which the
/// thread was preempted does not count.
pub fn one_core(turns: usize, mut turn: impl FnMut() + Send) -> f64 {
    let part = (turns / 64).max(1);
    let mut measure = move || {
        let begin = Instant::now();
        (0..part).for_each(|_| turn());
        begin.elapsed().as_nanos() as f64 / part as f64
    };
    let run = move || {
        let _ = affinity::pin(0);
        let mut parts = [(); 64].map(|()| measure());
        parts.sort_by(f64::total_cmp);
        parts[32]
    };
    thread::scope(|scope| scope.spawn(run).join().unwrap_or(f64::NAN))
}

/// Wirelane's ring between two cores, all or nothing in batches of `bulk`: nanoseconds per element.
pub fn bulk_two_cores<P: Side, C: Side>(elements: usize, bulk: usize) -> f64 {
    let (tx, rx) = Ring::<u64, P, C>::bounded(SLOTS);
    let (enqueue, dequeue) = steps(tx, rx, bulk);
    two_cores(elements - elements % bulk.max(1), enqueue, dequeue)
}

/// Wirelane's ring in one thread, `bulk` in and out in turn: nanoseconds per element.
pub fn bulk_one_core<P: Side, C: Side>(elements: usize, bulk: usize) -> f64 {
    let (tx, rx) = Ring::<u64, P, C>::bounded(SLOTS);
    let (mut enqueue, mut dequeue) = steps(tx, rx, bulk);
    let turn = move || {
        enqueue();
        dequeue();
    };
    one_core(elements / bulk, turn) / bulk as f64
}

/// Wirelane's ring in one thread, one element in and out in turn: nanoseconds per pair.
pub fn pair_one_core<P: Side, C: Side>(pairs: usize) -> f64 {
    let (mut tx, mut rx) = Ring::<u64, P, C>::bounded(SLOTS);
    one_core(pairs, move || {
        let _ = black_box(tx.enqueue(black_box(0)));
        black_box(rx.dequeue());
    })
}

/// Elements per second from `producers` to `consumers`, on all CPUs, for `time`: the rate that
/// remains when there are more threads than CPUs. The ring is larger than [`SLOTS`]. A small ring
/// is often full, and most of the time would be spent on context switches, whatever the ring.
pub fn crowd(producers: usize, consumers: usize, bulk: usize, time: Duration) -> f64 {
    let (tx, rx) = Ring::<u64, Multi, Multi>::bounded(16 * SLOTS);
    let (stop, moved) = (AtomicBool::new(false), AtomicU64::new(0));
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..producers {
            let (enqueue, _) = steps(tx.clone(), rx.clone(), bulk);
            scope.spawn(|| work(&stop, enqueue));
        }
        for _ in 0..consumers {
            let (_, dequeue) = steps(tx.clone(), rx.clone(), bulk);
            scope.spawn(|| moved.fetch_add(work(&stop, dequeue), Ordering::Relaxed));
        }
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    moved.into_inner() as f64 / begin.elapsed().as_secs_f64()
}

/// One batch into the ring, one batch out of it.
fn steps<P: Side, C: Side>(
    mut tx: Enqueuer<u64, P, C>,
    mut rx: Dequeuer<u64, P, C>,
    bulk: usize,
) -> (impl FnMut() -> usize + Send, impl FnMut() -> usize + Send) {
    let (from, mut into) = (vec![0; bulk], Vec::with_capacity(bulk));
    let enqueue = move || if tx.enqueue_slice(black_box(&from)) { bulk } else { 0 };
    let dequeue = move || {
        into.clear();
        let count = rx.dequeue_exact(&mut into, bulk);
        black_box(&into);
        count
    };
    (enqueue, dequeue)
}

/// The nanoseconds that one side takes.
fn move_all(cpu: u32, start: &Barrier, elements: usize, mut step: impl FnMut() -> usize) -> f64 {
    // If pinning fails, the scheduler chooses the CPU, and the figure is still of use.
    let _ = affinity::pin(cpu);
    start.wait();
    let begin = Instant::now();
    let mut left = elements;
    while left > 0 {
        match step() {
            0 => std::hint::spin_loop(),
            moved => left = left.saturating_sub(moved),
        }
    }
    begin.elapsed().as_nanos() as f64
}

/// Moves elements until stopped. A thread without work yields, as in a program.
fn work(stop: &AtomicBool, mut step: impl FnMut() -> usize) -> u64 {
    let mut moved = 0;
    while !stop.load(Ordering::Relaxed) {
        match step() {
            0 => thread::yield_now(),
            count => moved += count as u64,
        }
    }
    moved
}
