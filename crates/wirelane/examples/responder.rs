//! Answers ARP and ping for an address that no host has.
//!
//!     sudo target/release/examples/responder xdp:eth0 192.0.2.77
#![allow(clippy::print_stdout)]

use std::net::Ipv4Addr;

use wirelane::filter::Filter;
use wirelane::halt::Halt;
use wirelane::pipeline::Threads;
use wirelane::port::{self, OpenOptions, Take};
use wirelane::wire::{
    Arp, ArpOperation, ArpView, EtherType, Layers, MacAddr, flow::Network, packet,
};
use wirelane::{Batch, Error, Frame, Result};

/// The station that has the address: assigned locally, as the 02 says.
const STATION: MacAddr = MacAddr([0x02, 0x57, 0x4c, 0, 0, 0x77]);

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [spec, address] = &arguments[..] else {
        return Err(Error::usage("arguments", "a port and an IPv4 address are needed"));
    };
    let address: Ipv4Addr = address.parse()?;
    // `xdp:` takes the matching packets away from the host.
    let filter: Filter = format!("(arp or icmp) and dst host {address}").parse()?;
    let options = OpenOptions::forwarder().filter(filter).take(Take::MatchingAndManagement);
    let port = port::open(&spec.parse()?, &options)?;

    // An answer leaves through the queue of its request, in the same memory.
    let change = move |batch: &mut Batch| batch.retain(|frame| answer(frame, address).is_some());
    let threads = Threads::default().until(&Halt::by_signals()?);
    let running = threads.forward(vec![port], |_from, out| out.before_send(change))?;
    println!("{address} is at {STATION}");
    running.join().result().map(drop)
}

/// Turns a request into its answer, in place; `None` for anything else.
fn answer(frame: &mut Frame, address: Ipv4Addr) -> Option<()> {
    let layers = Layers::parse(frame.data()).ok()?;
    match layers.network {
        Network::Other(bytes) if layers.ethertype == EtherType::ARP => {
            let request = Arp::parse(&ArpView::new(bytes).ok()?);
            let is_request = request.operation == ArpOperation::REQUEST;
            (is_request && request.target == address).then_some(())?;
            let link = packet::ethernet(STATION, layers.ethernet.source);
            frame.fill_packet(&link.arp(request.reply(STATION))).ok()
        }
        Network::V4(header) if header.destination() == address => {
            let mut packet = frame.packet_mut().ok()?;
            packet.set_echo_reply().ok()?;
            packet.reverse().ok()?;
            packet.set_source_mac(STATION);
            Some(())
        }
        _ => None,
    }
}
