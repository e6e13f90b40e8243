//! Prints the packets and bits per second of each queue, once per second.
//!
//!     sudo target/release/examples/rate_meter packet:eth0
//!
//! The threads of the queues only count. This thread reads their counters, without a lock.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use wirelane::halt::Halt;
use wirelane::port::{self, OpenOptions};
use wirelane::session::capture::{Capture, CaptureConfig};
use wirelane::{Error, Result};

fn main() -> Result<()> {
    let Some(spec) = std::env::args().nth(1) else {
        return Err(Error::usage("arguments", "name a port, such as packet:eth0"));
    };
    let port = port::open(&spec.parse()?, &OpenOptions::default())?;

    // A capture without an output counts packets and drops them.
    let capture = Capture::start(vec![port], &CaptureConfig::default())?;
    let (halt, monitor) = (Halt::by_signals()?, capture.monitor());
    let (mut before, mut start, mut is_over) = (monitor.read().queues, Instant::now(), false);
    while !is_over {
        is_over = capture.wait(Duration::from_secs(1)) || halt.is_asked();
        let (now, seconds) = (monitor.read().queues, start.elapsed().as_secs_f64());
        start = Instant::now();
        for (now, before) in now.iter().zip(&before) {
            let queue = now.queue.map_or("-".to_owned(), |queue| queue.to_string());
            let packets = (now.packets - before.packets) as f64 / seconds;
            let bytes = now.bytes.unwrap_or(0) - before.bytes.unwrap_or(0);
            let mbits = bytes as f64 * 8.0 / 1e6 / seconds;
            println!("{:5} {queue:>3} {packets:12.0} packets/s {mbits:12.3} Mbit/s", now.class);
        }
        before = now;
    }
    let outcome = capture.join();
    outcome.queues.iter().for_each(|queue| println!("{queue}"));
    outcome.errors.into_iter().next().map_or(Ok(()), Err)
}
