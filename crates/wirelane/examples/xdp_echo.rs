//! Answers ping and UDP echo (port 7) on all queues of an interface, without the kernel's stack.
//!
//!     sudo target/release/examples/xdp_echo xdp:eth0
//!
//! The host receives everything else, so it stays reachable.
#![allow(clippy::print_stdout)]

use wirelane::filter::Filter;
use wirelane::halt::Halt;
use wirelane::pipeline::Threads;
use wirelane::port::{self, OpenOptions, Take};
use wirelane::{Batch, Error, Frame, Result};

/// Two echo servers must not answer each other.
const REQUESTS: &str = "icmp[icmptype] == icmp-echo or (udp dst port 7 and not udp src port 7)";

fn main() -> Result<()> {
    let Some(spec) = std::env::args().nth(1) else {
        return Err(Error::usage("arguments", "name a port, such as xdp:eth0"));
    };
    // An XDP program takes these packets; the others continue to the host.
    let requests: Filter = REQUESTS.parse()?;
    let options = OpenOptions::forwarder().filter(requests).take(Take::Matching);
    let options = options.promiscuous(false); // only packets for this host
    let port = port::open(&spec.parse()?, &options)?;
    println!("{}: {} mode, queues {:?}", spec, port.info().mode, port.info().queues);

    // An answer leaves through the queue of its request, in the same memory.
    let answer = |batch: &mut Batch| batch.retain(|frame| echo(frame).is_ok());
    let threads = Threads::default().until(&Halt::by_signals()?);
    let outcome = threads.forward(vec![port], |_from, out| out.before_send(answer))?.join();
    outcome.queues.iter().for_each(|queue| println!("{queue}"));
    outcome.result().map(drop)
}

/// Turns a request into its answer, in place.
fn echo(frame: &mut Frame) -> Result<()> {
    let mut packet = frame.packet_mut()?;
    if packet.echo_identifier().is_some() {
        packet.set_echo_reply()?;
    }
    Ok(packet.reverse()?)
}
