//! Counts the packets of RX queues 0 and 2 only, and changes the selection while it runs.
//!
//!     sudo target/release/examples/manual_masks packet:eth0
//!
//! Each line of standard input is a new selection, such as `1,3`, `0-7`, `all` or `none`. The
//! kernel filters: packets of other queues do not reach the program.
#![allow(clippy::print_stdout)]

use std::io;

use wirelane::port::{self, OpenOptions};
use wirelane::{Batch, Error, QueueMask, QueueSet, Result, pipeline};

fn main() -> Result<()> {
    let Some(spec) = std::env::args().nth(1) else {
        return Err(Error::usage("arguments", "name a port, such as packet:eth0"));
    };
    // The mask excludes packets that the host sends, and packets without a queue.
    let mask = QueueMask { rx: QueueSet::from_iter([0, 2]), ..QueueMask::NONE };
    let mask = QueueMask { enabled: true, ..mask };
    let port = port::open(&spec.parse()?, &OpenOptions::default().mask(mask))?;
    let running = pipeline::spawn(port, |_| |_: usize, _: &mut Batch| Ok(()))?;
    let control = &running.controls()[0];
    println!("mask: {}", control.mask());

    for line in io::stdin().lines() {
        running.queues().iter().for_each(|queue| println!("{queue}"));
        match line?.trim().parse::<QueueSet>() {
            Ok(rx) => control.set_mask(QueueMask { rx, ..control.mask() })?,
            Err(error) => println!("{error}"),
        }
        println!("mask: {}", control.mask());
    }
    running.stop();
    let outcome = running.join();
    outcome.queues.iter().for_each(|queue| println!("{queue}"));
    outcome.result().map(drop)
}
