//! Captures all queues into one pcapng file, in order of time.
//!
//!     cargo run --release -p wirelane --example capture -- 'sim:4?count=1000000' /tmp/sim.pcapng
//!
//! Without the second argument it writes `capture.pcapng`. It ends when the port does (a simulated
//! port with `count=`, a file), or after ten seconds.
#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::time::Duration;

use wirelane::Result;
use wirelane::pcap::WriterOptions;
use wirelane::port::{self, OpenOptions, Spec};
use wirelane::session::capture::{Capture, CaptureConfig, OutputConfig};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let spec: Spec = arguments.next().as_deref().unwrap_or("sim:4?count=1000000").parse()?;
    let path = PathBuf::from(arguments.next().as_deref().unwrap_or("capture.pcapng"));

    let port = port::open(&spec, &OpenOptions::default())?;
    let options = WriterOptions::of_path(&path);
    let output = OutputConfig { path: path.clone(), options, split: false };
    let config = CaptureConfig { output: Some(output), ..CaptureConfig::default() };

    // One receiving thread per queue and one that writes; they run until `join`.
    let capture = Capture::start(port, &config)?;
    capture.wait(Duration::from_secs(10));
    let outcome = capture.join();

    println!("class  queue     packets     dropped");
    for queue in &outcome.queues {
        let name = queue.queue.map_or("-".into(), |queue| queue.to_string());
        // A loss that the system does not report is unknown, not zero.
        let dropped = queue.dropped.total().map_or("unknown".into(), |n| n.to_string());
        println!("{:5} {name:>6} {:11} {dropped:>11}", queue.class, queue.packets);
    }
    if let Some(written) = outcome.written {
        println!("{} packets, {} bytes in {}", written.packets, written.bytes, path.display());
    }
    match outcome.errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
