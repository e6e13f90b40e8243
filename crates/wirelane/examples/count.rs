//! Counts the packets of every queue, one thread per queue.
//!
//!     cargo run --release -p wirelane --example count -- 'sim:4?count=1000000'
//!
//! It ends when the port does (a simulated port with `count=`, a file), or after ten seconds.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use wirelane::pipeline::{self, Consumer};
use wirelane::port::{self, OpenOptions, Spec};
use wirelane::{Batch, Result};

/// What one thread has seen.
#[derive(Default)]
struct Longest(u32);

impl Consumer for Longest {
    fn consume(&mut self, _input: usize, batch: &mut Batch) -> Result<()> {
        let longest = batch.iter().map(|frame| frame.original_len()).max();
        self.0 = self.0.max(longest.unwrap_or(0));
        // The frames go back to their queue's memory after this.
        Ok(())
    }
}

fn main() -> Result<()> {
    let port = std::env::args().nth(1);
    let spec: Spec = port.as_deref().unwrap_or("sim:4?count=1000000").parse()?;
    let port = port::open(&spec, &OpenOptions::default())?;

    let running = pipeline::spawn(port, |_| Longest::default())?;
    running.wait(Some(Duration::from_secs(10)));
    running.stop();
    let outcome = running.join();

    println!("class  queue     packets           bytes");
    for queue in &outcome.queues {
        // Packets may be tied to no queue; a counter that nobody can know is not zero.
        let number = queue.queue.map_or("-".into(), |queue| queue.to_string());
        let bytes = queue.bytes.map_or("unknown".into(), |bytes| bytes.to_string());
        println!("{:5} {number:>6} {:11} {bytes:>15}", queue.class, queue.packets);
    }
    println!("total {:18}", outcome.queues.iter().map(|queue| queue.packets).sum::<u64>());
    let longest = outcome.result()?.into_iter().map(|seen| seen.0).max();
    println!("longest {:16}", longest.unwrap_or(0));
    Ok(())
}
