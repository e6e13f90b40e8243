//! Who sends the most: packets and bytes of each source address, counted on all queues at once and
//! printed every second.
//!
//!     cargo run --release -p wirelane --example talkers -- packet:eth0
#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wirelane::pipeline;
use wirelane::port::{self, OpenOptions};
use wirelane::wire::FlowKey;
use wirelane::{Batch, Result};

/// Packets and bytes by source.
type Talkers = HashMap<IpAddr, (u64, u64)>;

/// As many are printed.
const TOP: usize = 10;

fn main() -> Result<()> {
    let port = std::env::args().nth(1);
    let spec = port.as_deref().unwrap_or("sim:4?count=1000000").parse()?;
    let port = port::open(&spec, &OpenOptions::default())?;

    // Each thread counts for itself, so that none waits for another; its lock is taken once per
    // batch.
    let mut counts: Vec<Arc<Mutex<Talkers>>> = Vec::new();
    let running = pipeline::spawn(port, |_| {
        let mine = Arc::<Mutex<Talkers>>::default();
        counts.push(Arc::clone(&mine));
        move |_: usize, batch: &mut Batch| {
            count(&mut mine.lock().unwrap_or_else(PoisonError::into_inner), batch);
            Ok(())
        }
    })?;
    while !running.wait(Some(Duration::from_secs(1))) {
        print(&sum(&counts));
    }
    let outcome = running.join();
    print(&sum(&counts));
    outcome.result().map(drop)
}

fn count(talkers: &mut Talkers, batch: &Batch) {
    for frame in batch.iter() {
        // What is not IP has no address, and what is malformed none to rely on.
        let Ok(Some(flow)) = FlowKey::parse(frame.data()) else { continue };
        let (packets, bytes) = talkers.entry(flow.addresses.source()).or_default();
        *packets += 1;
        *bytes += u64::from(frame.original_len());
    }
}

fn sum(counts: &[Arc<Mutex<Talkers>>]) -> Talkers {
    let mut sum = Talkers::new();
    for talkers in counts {
        for (source, (packets, bytes)) in &*talkers.lock().unwrap_or_else(PoisonError::into_inner) {
            let all = sum.entry(*source).or_default();
            *all = (all.0 + packets, all.1 + bytes);
        }
    }
    sum
}

fn print(talkers: &Talkers) {
    let mut sorted: Vec<_> = talkers.iter().collect();
    sorted.sort_unstable_by_key(|(source, (_, bytes))| (std::cmp::Reverse(*bytes), **source));
    println!("{:39} {:>11} {:>15}", "source", "packets", "bytes");
    for (source, (packets, bytes)) in sorted.iter().take(TOP) {
        println!("{:39} {packets:11} {bytes:15}", source.to_string());
    }
    let packets: u64 = talkers.values().map(|(packets, _)| packets).sum();
    println!("{packets} packets of {} sources", talkers.len());
}
