//! Prints the flows of a capture file as JSON lines, and the counts of its packets.
//!
//! ```text
//! cargo run --release -p wirelane-flow --example flows -- trace.pcapng
//! ```

use std::io::Write as _;
use std::time::Duration;

use wirelane::placement::Placement;
use wirelane::port::{self, OpenOptions};
use wirelane::{Error, Result};
use wirelane_flow::session::{FlowConfig, Metering};
use wirelane_flow::{Flow, MeterConfig, Sink, Text, TextFormat};

/// Writes flows to standard output.
struct Printer {
    text: Text,
    lines: Vec<u8>,
}

impl Sink for Printer {
    fn add(&mut self, flow: &Flow) -> Result<()> {
        self.text.push(flow, &mut self.lines);
        if self.lines.len() < 65_536 { Ok(()) } else { self.finish() }
    }

    fn finish(&mut self) -> Result<()> {
        let written = std::io::stdout().write_all(&self.lines);
        self.lines.clear();
        written.map_err(|error| Error::io("standard output", "write", error))
    }
}

fn main() -> Result<()> {
    let Some(path) = std::env::args().nth(1) else {
        return Err(Error::usage("arguments", "name a capture file"));
    };
    let port = port::open(&format!("file:{path}").parse()?, &OpenOptions::default())?;
    let printer = Printer { text: Text::new(TextFormat::JsonLines), lines: Vec::new() };
    let config = FlowConfig::default()
        .meter(MeterConfig::default())
        .max_flows(1_000_000)
        .single(false)
        .placement(Placement::default())
        .packets(None)
        .seed(1);
    let metering = Metering::start(vec![port], vec![Box::new(printer)], &config)?;
    while !metering.wait(Duration::from_secs(1)) {}
    let mut outcome = metering.join();
    eprintln!("{:?}", outcome.metered);
    outcome.errors.drain(..).next().map_or(Ok(()), Err)
}
