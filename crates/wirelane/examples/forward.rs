//! Forwards between two ports, both ways, one thread per queue.
//!
//!     cargo run --release -p wirelane --example forward -- 'sim:2?count=1M' 'sim:2?count=1M'
//!     sudo target/release/examples/forward packet:eth0 packet:eth1
//!
//! Packets arrive as they were on the wire: those that the kernel shows as one are cut again,
//! checksums that a host left to its hardware are completed. It ends when both ports do, or at ^C.
//! `nat.rs` also rewrites addresses.
#![allow(clippy::print_stdout)]

use wirelane::Result;
use wirelane::halt::Halt;
use wirelane::pipeline::Threads;
use wirelane::port::{self, OpenOptions};

fn main() -> Result<()> {
    let mut names = std::env::args().skip(1);
    let options = OpenOptions::forwarder();
    let mut open = || {
        let name = names.next();
        port::open(&name.as_deref().unwrap_or("sim:2?count=1000000").parse()?, &options)
    };
    let ports = vec![open()?, open()?];

    // Each RX queue of one port with a TX queue of the other one.
    let threads = Threads::default().until(&Halt::by_signals()?);
    let outcome = threads.forward(ports, |_, out| out)?.join();

    outcome.queues.iter().for_each(|queue| println!("{queue}"));
    outcome.result().map(drop)
}
