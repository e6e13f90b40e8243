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
use wirelane::port::{self, OpenOptions, Spec};
use wirelane::session::capture::{Capture, CaptureConfig, OutputConfig};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let spec: Spec = arguments.next().as_deref().unwrap_or("sim:4?count=1000000").parse()?;
    let path = PathBuf::from(arguments.next().as_deref().unwrap_or("capture.pcapng"));

    let port = port::open(&spec, &OpenOptions::default())?;
    let config = CaptureConfig::default().output(OutputConfig::new(&path));

    // One receiving thread per queue and one that writes; they run until `join`.
    let capture = Capture::start(vec![port], &config)?;
    capture.wait(Duration::from_secs(10));
    let outcome = capture.join();

    // A loss that the system does not report is unknown, not zero.
    outcome.queues.iter().for_each(|queue| println!("{queue}"));
    if let Some(written) = outcome.written {
        println!("{} packets, {} bytes in {}", written.packets, written.bytes, path.display());
    }
    outcome.errors.into_iter().next().map_or(Ok(()), Err)
}
