//! Sends packets, described in one line, through every TX queue of a port.
//!
//!     cargo run --release -p wirelane-send --example send -- \
//!         sim:2 'ipv4 dst=10.0.0.0/24 udp dst=53' 100kpps 3
#![allow(clippy::print_stdout)]

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use wirelane::port::{self, OpenOptions};
use wirelane_gen::{Generator, Lane, Source, Stream};
use wirelane_send::{SendConfig, sockets};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = env::args().skip(1).collect();
    let [spec, packet, rate, seconds] = args.as_slice() else {
        return Err("usage: send PORT PACKET RATE SECONDS".into());
    };

    // The port receives nothing, so the host gets all of its packets.
    let options = OpenOptions::default().receive(false).transmit(true);
    let port = port::open(&spec.parse()?, &options)?;

    let mut stream = Stream::new("example", &packet.parse()?, None, 0)?;
    stream.rate = rate.parse()?;
    stream.resolve(port.info().speed)?;
    let streams: Arc<[Stream]> = [stream].into();

    // Each thread generates its part of the packets.
    let mut sources = |lane: Lane| {
        let generator = Generator::new(Arc::clone(&streams), lane, None);
        generator
            .map(|generator| Box::new(generator) as Box<dyn Source>)
            .map_err(|error| wirelane::Error::usage("packets", error.to_string()))
    };
    let config = SendConfig::default().duration(Duration::from_secs(seconds.parse()?));
    let sending = sockets::start(port, &mut sources, &config)?;

    // Any thread may read the progress while the others send.
    while !sending.wait(Duration::from_secs(1)) {
        eprintln!("{} packets so far", sending.progress().packets);
    }
    let outcome = sending.join();
    println!("{} sent", outcome.sent());
    if let Some(error) = outcome.timing.rate_error() {
        println!("rate error {:+.4} %", error * 100.0);
    }
    match outcome.errors.into_iter().next() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}
