//! Receives as fast as it can and drops everything: one pinned thread per queue. Prints the rate
//! once per second.
//!
//!     cargo run --release -p wirelane --example rxdrop -- 'sim:2?count=100M'
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::placement::Placement;
use wirelane::port::{self, OpenOptions, Spec};
use wirelane::stats::RxCounters;
use wirelane::{Batch, Error, Result, pipeline};

fn main() -> Result<()> {
    let port = std::env::args().nth(1);
    let spec: Spec = port.as_deref().unwrap_or("sim:4?count=1000000").parse()?;
    let mut port = port::open(&spec, &OpenOptions::default())?;
    let inputs = port.rx();
    let counters: Vec<_> = inputs.iter().map(|rx| Arc::clone(rx.counters())).collect();

    let running = Arc::new(AtomicUsize::new(inputs.len()));
    let mut threads = Vec::new();
    for (position, rx) in inputs.into_iter().enumerate() {
        let running = Arc::clone(&running);
        threads.push(thread::spawn(move || {
            let pinned = Placement::default().pin(position);
            // Frames that the consumer leaves in the batch are given back: dropped.
            let drop_all = &mut |_: usize, _: &mut Batch| {};
            let result = pinned.and_then(|()| pipeline::run(&mut [rx], drop_all));
            running.fetch_sub(1, Ordering::Release);
            result
        }));
    }
    port.start()?;
    report(&counters, || running.load(Ordering::Acquire) > 0);
    for thread in threads {
        thread.join().map_err(|_| Error::failed("receiving thread", "panicked"))??;
    }
    Ok(())
}

/// Prints what was received since the last line: once per second, and when all have ended.
fn report(counters: &[Arc<RxCounters>], is_running: impl Fn() -> bool) {
    println!("   Mpps  ns/packet   per queue, Mpps");
    let mut before = vec![0; counters.len()];
    let mut go_on = true;
    while go_on {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(1) && is_running() {
            thread::sleep(Duration::from_millis(1));
        }
        let seconds = start.elapsed().as_secs_f64();
        go_on = is_running();
        let now: Vec<u64> = counters.iter().map(|counters| counters.packets.value()).collect();
        let rates = now.iter().zip(&before).map(|(now, before)| (now - before) as f64 / seconds);
        let rates: Vec<f64> = rates.collect();
        let sum: f64 = rates.iter().sum();
        let queues: Vec<_> = rates.iter().map(|rate| format!("{:.2}", rate / 1e6)).collect();
        let cost = if sum > 0.0 { format!("{:.1}", 1e9 / sum) } else { "-".into() };
        println!("{:7.2} {cost:>10}   {}", sum / 1e6, queues.join(" "));
        before = now;
    }
}
