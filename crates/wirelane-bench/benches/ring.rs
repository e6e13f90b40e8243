//! Compares the cost per element of Wirelane's ring and of other rings: `cargo bench -p
//! wirelane-bench --bench ring`.
//!
//! Every round measures each ring once. A figure is the median of the rounds, with the lowest and
//! the highest. `rte_ring` takes part if `dpdk-test` is installed (Debian: `dpdk-dev`). Cycles are
//! cycles of the time stamp counter. Between two cores, a figure is the producer's time plus the
//! consumer's.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use wirelane::internal::ring::{Multi, Single};
use wirelane_bench::machine::ticks_per_ns;
use wirelane_bench::suites::qdisc::ring::{
    SLOTS, bulk_one_core, bulk_two_cores, crowd, one_core, pair_one_core, two_cores,
};
use wirelane_bench::suites::qdisc::rte_ring::{self, RingFigure};

/// As many as in DPDK's test: 2^15 batches.
const BATCHES: usize = 1 << 15;
const PAIRS: usize = 1 << 20;

/// Nanoseconds by case and ring, one per round.
type Figures = BTreeMap<(&'static str, &'static str), Vec<f64>>;
/// The case, the ring, and the function that measures it.
type RingCase = (&'static str, &'static str, fn() -> f64);

const SPSC_8: &str = "spsc, 2 cores, bulk 8";
const SPSC_32: &str = "spsc, 2 cores, bulk 32";
const MPMC_8: &str = "mpmc, 2 cores, bulk 8";
const MPMC_32: &str = "mpmc, 2 cores, bulk 32";
const SPSC_PAIR: &str = "spsc, 1 core, pair";
const MPMC_PAIR: &str = "mpmc, 1 core, pair";
const SPSC_BATCH: &str = "spsc, 1 core, per 32";
const MPMC_BATCH: &str = "mpmc, 1 core, per 32";

const CASES: [RingCase; 19] = [
    (SPSC_8, "wirelane", || bulk_two_cores::<Single, Single>(BATCHES * 8, 8)),
    (SPSC_8, "rtrb", || rtrb_two_cores(8)),
    (SPSC_32, "wirelane", || bulk_two_cores::<Single, Single>(BATCHES * 32, 32)),
    (SPSC_32, "rtrb", || rtrb_two_cores(32)),
    (MPMC_8, "wirelane", || bulk_two_cores::<Multi, Multi>(BATCHES * 8, 8)),
    (MPMC_8, "crossbeam", || crossbeam_two_cores(8)),
    (MPMC_32, "wirelane", || bulk_two_cores::<Multi, Multi>(BATCHES * 32, 32)),
    (MPMC_32, "crossbeam", || crossbeam_two_cores(32)),
    (SPSC_PAIR, "wirelane", || pair_one_core::<Single, Single>(PAIRS)),
    (SPSC_PAIR, "rtrb", rtrb_pair),
    (MPMC_PAIR, "wirelane", || pair_one_core::<Multi, Multi>(PAIRS)),
    (MPMC_PAIR, "crossbeam", crossbeam_pair),
    (SPSC_BATCH, "wirelane", || 32.0 * bulk_one_core::<Single, Single>(BATCHES * 32, 32)),
    (SPSC_BATCH, "rtrb", rtrb_one_core),
    (MPMC_BATCH, "wirelane", || 32.0 * bulk_one_core::<Multi, Multi>(BATCHES * 32, 32)),
    ("mpmc, 1 producer, 2 consumers", "wirelane", || crowded(1)),
    ("mpmc, 2 producers, 2 consumers", "wirelane", || crowded(2)),
    ("mpmc, 4 producers, 2 consumers", "wirelane", || crowded(4)),
    ("mpmc, 8 producers, 2 consumers", "wirelane", || crowded(8)),
];

fn main() {
    let only = std::env::args().nth(1).filter(|arg| !arg.starts_with('-'));
    let rounds = std::env::var("ROUNDS").map_or(7, |rounds| rounds.parse().unwrap());
    let cycles = ticks_per_ns().unwrap_or(1.0);
    let mut figures = Figures::new();
    for _ in 0..rounds {
        for (case, ring, measure) in CASES {
            if only.as_deref().is_none_or(|only| case.contains(only)) {
                figures.entry((case, ring)).or_default().push(measure());
            }
        }
        rte_ring(&mut figures, cycles);
    }
    println!("{rounds} rounds; {cycles:.3} cycles are 1 ns");
    println!("{:32} {:>10} {:>24} {:>8}", "case", "ring", "cycles (lowest–highest)", "ns");
    for ((case, ring), values) in &mut figures {
        values.sort_by(f64::total_cmp);
        let [low, median, high] =
            [0, values.len() / 2, values.len() - 1].map(|index| values[index] * cycles);
        let spread = format!("{median:.2} ({low:.2}–{high:.2})");
        println!("{case:32} {ring:>10} {spread:>24} {:8.2}", median / cycles);
    }
}

/// Nanoseconds per element that arrives, with more threads than there may be cores.
fn crowded(producers: usize) -> f64 {
    1e9 / crowd(producers, 2, 32, Duration::from_millis(200))
}

fn crossbeam_two_cores(bulk: usize) -> f64 {
    let tx = Arc::new(ArrayQueue::new(SLOTS));
    let rx = Arc::clone(&tx);
    let enqueue = move || (0..bulk).take_while(|i| tx.push(black_box(*i)).is_ok()).count();
    let dequeue = move || (0..bulk).map_while(|_| rx.pop().map(black_box)).count();
    two_cores(BATCHES / 4 * bulk, enqueue, dequeue)
}

fn crossbeam_pair() -> f64 {
    let queue = ArrayQueue::new(SLOTS);
    one_core(PAIRS, || {
        let _ = black_box(queue.push(black_box(0_u64)));
        black_box(queue.pop());
    })
}

fn rtrb_two_cores(bulk: usize) -> f64 {
    let (enqueue, dequeue) = rtrb_steps(bulk);
    two_cores(BATCHES * bulk, enqueue, dequeue)
}

fn rtrb_pair() -> f64 {
    let (mut tx, mut rx) = rtrb::RingBuffer::new(SLOTS);
    one_core(PAIRS, || {
        let _ = black_box(tx.push(black_box(0_u64)));
        let _ = black_box(rx.pop());
    })
}

fn rtrb_one_core() -> f64 {
    let (mut enqueue, mut dequeue) = rtrb_steps(32);
    one_core(BATCHES, || {
        enqueue();
        dequeue();
    })
}

fn rtrb_steps(bulk: usize) -> (impl FnMut() -> usize + Send, impl FnMut() -> usize + Send) {
    let (mut tx, mut rx) = rtrb::RingBuffer::new(SLOTS);
    let (from, mut into) = (vec![0_u64; bulk], vec![0_u64; bulk]);
    let enqueue = move || if tx.push_entire_slice(black_box(&from)).is_ok() { bulk } else { 0 };
    let dequeue = move || {
        let moved = if rx.pop_entire_slice(&mut into).is_ok() { bulk } else { 0 };
        black_box(&into);
        moved
    };
    (enqueue, dequeue)
}

/// The figures of DPDK's own test, if it is there.
fn rte_ring(figures: &mut Figures, cycles: f64) {
    let Ok(measured) = rte_ring::measure(Duration::from_secs(60), &AtomicBool::new(false)) else {
        return;
    };
    for (figure, value) in measured {
        let case = match figure {
            RingFigure::Pair { multi: false } => SPSC_PAIR,
            RingFigure::Pair { multi: true } => MPMC_PAIR,
            RingFigure::TwoCores { multi: false, bulk: 8 } => SPSC_8,
            RingFigure::TwoCores { multi: false, bulk: 32 } => SPSC_32,
            RingFigure::TwoCores { multi: true, bulk: 8 } => MPMC_8,
            RingFigure::TwoCores { multi: true, bulk: 32 } => MPMC_32,
            RingFigure::TwoCores { .. } => continue,
        };
        figures.entry((case, "rte_ring")).or_default().push(value / cycles);
    }
}
