//! Prints the two-way flows of an interface when they end.
//!
//!     sudo target/release/examples/live_flows packet:eth0
//!
//! A TCP connection ends with its FIN or RST packets, any flow after 15 seconds of silence.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use wirelane::halt::Halt;
use wirelane::port::{self, OpenOptions};
use wirelane::{Error, Result};
use wirelane_flow::session::{FlowConfig, Metering};
use wirelane_flow::{Flow, Sink};

/// Prints flows. One thread calls it; the threads of the queues do not wait for it.
struct Printer;

impl Sink for Printer {
    fn add(&mut self, flow: &Flow) -> Result<()> {
        let (key, start) = (&flow.key, Duration::from_nanos(flow.start()));
        println!(
            "{} {}:{} > {}:{} {:.3} s, {} packets and {} bytes there, {} and {} back",
            key.protocol,
            key.source,
            key.source_port,
            key.destination,
            key.destination_port,
            (Duration::from_nanos(flow.last()) - start).as_secs_f64(),
            flow.forward.packets,
            flow.forward.octets,
            flow.reverse.packets,
            flow.reverse.octets,
        );
        Ok(())
    }
}

fn main() -> Result<()> {
    let Some(spec) = std::env::args().nth(1) else {
        return Err(Error::usage("arguments", "name a port, such as packet:eth0"));
    };
    let port = port::open(&spec.parse()?, &OpenOptions::default())?;
    let halt = Halt::by_signals()?;
    let metering = Metering::start(vec![port], vec![Box::new(Printer)], &FlowConfig::default())?;
    while !metering.wait(Duration::from_secs(1)) && !halt.is_asked() {}
    // The flows that have not ended are printed now.
    let outcome = metering.join();
    println!("{} packets in {} flows", outcome.metered.packets, outcome.metered.exported);
    outcome.errors.into_iter().next().map_or(Ok(()), Err)
}
