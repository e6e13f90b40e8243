//! A bridge: forwards between two ports, both ways, with a thread for each queue.
//!
//!     sudo target/release/examples/bridge packet:eth0 packet:eth1
//!
//! It segments packets that the kernel has merged, and completes partial checksums. ^C ends it.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use wirelane::halt::Halt;
use wirelane::port::{self, OpenOptions};
use wirelane::session::forward::{Forward, ForwardConfig};
use wirelane::{Error, Result};

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [first, second] = &arguments[..] else {
        return Err(Error::usage("arguments", "two ports are needed"));
    };
    let open = |port: &str| port::open(&port.parse()?, &OpenOptions::forwarder());
    let ports = vec![open(first)?, open(second)?];

    let halt = Halt::by_signals()?;
    let forward = Forward::start(ports, &ForwardConfig::default())?;
    while !forward.wait(Duration::from_secs(1)) && !halt.is_asked() {}
    let outcome = forward.join();

    outcome.queues.iter().for_each(|queue| println!("received: {queue}"));
    for tx in &outcome.tx {
        println!(
            "sent: port {} tx {}: {} packets, {} bytes",
            tx.port, tx.queue, tx.packets, tx.bytes
        );
    }
    outcome.errors.into_iter().next().map_or(Ok(()), Err)
}
