//! Counts the packets of every queue, one thread per queue.
//!
//!     cargo run --release -p wirelane-capi --example count -- 'sim:4?count=1000000'
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

    outcome.queues.iter().for_each(|queue| println!("{queue}"));
    let longest = outcome.result()?.into_iter().map(|seen| seen.0).max();
    println!("longest packet: {} bytes", longest.unwrap_or(0));
    Ok(())
}
