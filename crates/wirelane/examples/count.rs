//! Counts the packets of every queue, one thread per queue.
//!
//!     cargo run --release -p wirelane --example count -- 'sim:4?count=1000000'
//!
//! It ends when the port does (a simulated port with `count=`, a file), or after ten seconds.
#![allow(clippy::print_stdout)]

use std::thread;
use std::time::Duration;

use wirelane::port::{self, OpenOptions, Rx, Spec};
use wirelane::{Batch, Error, Result, pipeline};

fn main() -> Result<()> {
    let port = std::env::args().nth(1);
    let spec: Spec = port.as_deref().unwrap_or("sim:4?count=1000000").parse()?;
    let mut port = port::open(&spec, &OpenOptions::default())?;

    // A receiving end belongs to one thread at a time: each moves into its own.
    let threads: Vec<_> = port.rx().into_iter().map(|rx| thread::spawn(|| count(rx))).collect();
    // No packet is taken before this.
    port.start()?;
    let control = port.control();
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(10));
        control.stop();
    });

    println!("class  queue     packets           bytes");
    let mut total = 0;
    for thread in threads {
        let (rx, packets, bytes) =
            thread.join().map_err(|_| Error::failed("receiving thread", "panicked"))??;
        println!("{:5} {:6} {packets:11} {bytes:15}", rx.class(), rx.queue());
        total += packets;
    }
    println!("total {total:18}");
    Ok(())
}

/// Receives until the queue has ended; gives it back with its packets and bytes.
fn count(rx: Rx) -> Result<(Rx, u64, u64)> {
    let mut inputs = [rx];
    let (mut packets, mut bytes) = (0, 0);
    pipeline::run(&mut inputs, &mut |_input: usize, batch: &mut Batch| {
        packets += batch.len() as u64;
        bytes += batch.iter().map(|frame| u64::from(frame.original_len())).sum::<u64>();
        // The frames go back to their queue's memory when the batch is emptied after this.
    })?;
    let [rx] = inputs;
    Ok((rx, packets, bytes))
}
