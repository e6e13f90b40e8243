//! Receives as fast as it can and drops everything: one pinned thread per queue. Prints the rate
//! once per second.
//!
//!     cargo run --release -p wirelane-capi --example rxdrop -- 'sim:2?count=100M'
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use wirelane::halt::Halt;
use wirelane::pipeline::Threads;
use wirelane::placement::Placement;
use wirelane::port::{self, OpenOptions, Spec};
use wirelane::{Batch, Result};

fn main() -> Result<()> {
    let port = std::env::args().nth(1);
    let spec: Spec = port.as_deref().unwrap_or("sim:4?count=1000000").parse()?;
    let port = port::open(&spec, &OpenOptions::default())?;

    // ^C ends it, as the end of the port does.
    let halt = Halt::by_signals()?;
    // Frames that the consumer leaves in the batch are given back: dropped.
    let drop_all = |_input: usize, _batch: &mut Batch| Ok(());
    let threads = Threads::default().placed(Placement::default()).until(&halt);
    let running = threads.spawn(port, |_| drop_all)?;

    println!("   Mpps  ns/packet   per queue, Mpps");
    let mut before = vec![0; running.queues().len()];
    let mut go_on = true;
    while go_on {
        let start = Instant::now();
        go_on = !running.wait(Some(Duration::from_secs(1))) && !halt.is_asked();
        let seconds = start.elapsed().as_secs_f64();
        let now: Vec<u64> = running.queues().iter().map(|queue| queue.packets).collect();
        let rates = now.iter().zip(&before).map(|(now, before)| (now - before) as f64 / seconds);
        let rates: Vec<f64> = rates.collect();
        let sum: f64 = rates.iter().sum();
        let queues: Vec<_> = rates.iter().map(|rate| format!("{:.2}", rate / 1e6)).collect();
        let cost = if sum > 0.0 { format!("{:.1}", 1e9 / sum) } else { "-".into() };
        println!("{:7.2} {cost:>10}   {}", sum / 1e6, queues.join(" "));
        before = now;
    }
    running.join().result().map(drop)
}
