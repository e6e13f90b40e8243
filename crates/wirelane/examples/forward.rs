//! Forwards between two ports, both ways, one thread per queue.
//!
//!     cargo run --release -p wirelane --example forward -- 'sim:2?count=1M' 'sim:2?count=1M'
//!     sudo target/release/examples/forward packet:eth0 packet:eth1
//!
//! It ends when both ports do, or at ^C. `nat.rs` also rewrites addresses.
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
    let mut ports = vec![open()?, open()?];

    // Each RX queue of one port with a TX queue of the other one.
    let lanes = port::lanes(&mut ports)?;
    let threads = Threads::default().until(&Halt::by_signals()?);
    let running = threads.start(ports, lanes.into_iter().map(|lane| lane.work(|out| out)))?;
    let outcome = running.join();

    println!("port  class  queue     packets     dropped");
    for queue in &outcome.queues {
        let number = queue.queue.map_or("-".into(), |queue| queue.to_string());
        let dropped = queue.dropped.total().map_or("unknown".into(), |n| n.to_string());
        println!(
            "{:4}  {:5} {number:>6} {:11} {dropped:>11}",
            queue.port, queue.class, queue.packets
        );
    }
    outcome.result().map(|_| ())
}
