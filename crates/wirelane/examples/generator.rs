//! Sends packets that are described in one line, at a rate, through every TX queue of a port.
//!
//!     sudo target/release/examples/generator packet:eth0 \
//!         'ipv4 dst=10.0.0.0/24 udp dst=53' 100kpps 3
//!
//! The last argument is the number of seconds.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use wirelane::port::{self, OpenOptions};
use wirelane_gen::{Generator, PacketSource, Stream, ThreadShare};
use wirelane_send::{SendConfig, sockets};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [spec, packet, rate, seconds] = &arguments[..] else {
        return Err("a port, a packet, a rate and seconds are needed".into());
    };
    // The port receives nothing, so the host gets all of its packets.
    let options = OpenOptions::default().receive(false).transmit(true);
    let port = port::open(&spec.parse()?, &options)?;

    let mut stream = Stream::new("example", &packet.parse()?, None, 0)?;
    stream.rate = rate.parse()?;
    stream.resolve(port.info().speed)?;
    let streams: Arc<[Stream]> = [stream].into();

    // Each thread generates its part of the packets.
    let mut sources = |share: ThreadShare| {
        let generator = Generator::new(Arc::clone(&streams), share, None);
        generator
            .map(|generator| Box::new(generator) as Box<dyn PacketSource>)
            .map_err(|error| wirelane::Error::usage("packets", error.to_string()))
    };
    let config = SendConfig::default().duration(Duration::from_secs(seconds.parse()?));
    let sending = sockets::start(port, &mut sources, &config)?;

    // Any thread may read the progress while the others send.
    while !sending.wait(Duration::from_secs(1)) {
        eprintln!("{} packets so far", sending.progress().packets);
    }
    let outcome = sending.join();
    println!("{} packets sent", outcome.sent());
    if let Some(error) = outcome.timing.rate_error() {
        println!("rate error {:+.4} %", error * 100.0);
    }
    outcome.errors.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
}
