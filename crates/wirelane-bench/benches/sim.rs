//! Measures the cost of a packet of the simulated port, on one core: `cargo bench -p wirelane-bench
//! --bench sim`.
//!
//! Each figure is the best of several rounds: the machine can only add time, never take it away.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::time::Instant;

use wirelane::Batch;
use wirelane::internal::sim;
use wirelane::port::{OpenOptions, Rx};
use wirelane_wire::ethernet;

const PACKETS: u64 = 10_000_000;
const ROUNDS: usize = 5;

fn main() {
    let only = std::env::args().nth(1).filter(|arg| !arg.starts_with('-'));
    for spec in [
        "sim:1",
        "sim:1?flows=1",
        "sim:1?flows=65536",
        "sim:1?proto=tcp",
        "sim:1?size=imix",
        "sim:1?size=1500",
        "sim:1?size=9000",
        "sim:1?rate=1Gpps",
    ] {
        if only.as_deref().is_none_or(|only| only == spec) {
            report("receive, drop", spec, receive(spec));
        }
    }
    for spec in ["sim:2", "sim:2?size=1500"] {
        if only.as_deref().is_none_or(|only| only == spec) {
            scale(spec);
        }
    }
    for spec in ["sim:1", "sim:1?size=1500", "sim:1?verify=on"] {
        if only.as_deref().is_none_or(|only| only == spec) {
            report("receive, swap, transmit", spec, forward(spec));
        }
    }
}

fn report(what: &str, spec: &str, nanoseconds: f64) {
    println!("{what:24} {spec:24} {nanoseconds:7.2} ns/packet {:8.2} Mpps", 1e3 / nanoseconds);
}

fn receive(spec: &str) -> f64 {
    let mut sim = sim::open(&spec.parse().unwrap(), &OpenOptions::default()).unwrap();
    let rx = sim.rx().unwrap().remove(0);
    sim.start().unwrap();
    receive_on(rx)
}

/// Two queues one after the other, then both at once on two threads.
fn scale(spec: &str) {
    let open = || {
        let mut sim = sim::open(&spec.parse().unwrap(), &OpenOptions::default()).unwrap();
        let ends = sim.rx().unwrap();
        sim.start().unwrap();
        ends
    };
    let rate = |nanoseconds: f64| 1e3 / nanoseconds;
    let alone: f64 = open().into_iter().map(|rx| rate(receive_on(rx))).sum::<f64>() / 2.0;
    let threads: Vec<_> =
        open().into_iter().map(|rx| std::thread::spawn(move || receive_on(rx))).collect();
    let together: f64 = threads.into_iter().map(|thread| rate(thread.join().unwrap())).sum();
    println!(
        "{:24} {spec:24} {alone:.2} Mpps alone, {together:.2} Mpps together: {:.2} times",
        "two threads",
        together / alone
    );
}

fn receive_on(mut rx: Rx) -> f64 {
    let mut batch = Batch::default();
    best(|| {
        let n = rx.receive(&mut batch);
        batch.clear();
        n
    })
}

fn forward(spec: &str) -> f64 {
    let options = OpenOptions::default().transmit(true);
    let mut sim = sim::open(&spec.parse().unwrap(), &options).unwrap();
    let (mut rx, mut tx) = (sim.rx().unwrap().remove(0), sim.tx().unwrap().remove(0));
    sim.start().unwrap();
    let mut batch = Batch::default();
    best(|| {
        let n = rx.receive(&mut batch);
        for frame in batch.iter_mut() {
            ethernet::swap_addresses(frame.data_mut()).unwrap();
        }
        tx.transmit(&mut batch);
        n
    })
}

/// Nanoseconds per packet of the fastest round.
fn best(mut batch: impl FnMut() -> usize) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let (mut packets, begin) = (0, Instant::now());
        while packets < PACKETS && begin.elapsed().as_secs() < 2 {
            for _ in 0..64 {
                packets += batch() as u64;
            }
        }
        best = best.min(begin.elapsed().as_nanos() as f64 / packets as f64);
    }
    best
}
