//! Captures several ports in parallel into one file, in order of time.
//!
//!     sudo target/release/examples/several_ports all.pcapng.zst packet:eth0 packet:eth1
//!
//! There is a thread for each queue of each port, and one that merges and writes. ^C ends it.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use wirelane::halt::Halt;
use wirelane::port::{self, OpenOptions, Port};
use wirelane::session::capture::{Capture, CaptureConfig, OutputConfig};
use wirelane::{Error, Result};

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [path, specs @ ..] = &arguments[..] else {
        return Err(Error::usage("arguments", "a file and ports are needed"));
    };
    let open = |spec: &String| port::open(&spec.parse()?, &OpenOptions::default());
    let ports: Vec<Port> = specs.iter().map(open).collect::<Result<_>>()?;

    // The suffix selects the format and the compression.
    let config = CaptureConfig::default().output(OutputConfig::new(path));
    let halt = Halt::by_signals()?;
    let capture = Capture::start(ports, &config)?;
    while !capture.wait(Duration::from_secs(1)) && !halt.is_asked() {}
    let outcome = capture.join();

    outcome.queues.iter().for_each(|queue| println!("{queue}"));
    if let Some(written) = outcome.written {
        println!("{} packets, {} bytes in {path}", written.packets, written.bytes);
    }
    outcome.errors.into_iter().next().map_or(Ok(()), Err)
}
