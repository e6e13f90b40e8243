//! Answers ARP and ping for an address that no host has, over any port.
//!
//!     cargo run --release -p wirelane --example responder -- xdp:eth0 192.0.2.77
#![allow(clippy::print_stdout)]

use std::net::Ipv4Addr;

use wirelane::filter::Filter;
use wirelane::halt::Halt;
use wirelane::pipeline::Threads;
use wirelane::port::{self, OpenOptions, Take};
use wirelane::wire::flow::Network;
use wirelane::wire::{
    Arp, ArpOperation, ArpView, EtherType, Icmpv4, Icmpv4Mut, Layers, MacAddr, packet,
};
use wirelane::{Batch, Error, Frame, Result};

/// The station that has the address: assigned locally, as the 02 says.
const STATION: MacAddr = MacAddr([0x02, 0x57, 0x4c, 0, 0, 0x77]);

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [spec, address] = &arguments[..] else {
        return Err(Error::usage("arguments", "a port and an IPv4 address are needed"));
    };
    let address: Ipv4Addr =
        address.parse().map_err(|_| Error::usage(address, "not an IPv4 address"))?;

    // `xdp:` takes packets away from the host: only those for the address, and nothing else.
    let filter: Filter = format!("(arp or icmp) and host {address}").parse()?;
    let options = OpenOptions::forwarder().filter(filter).take(Take::MatchingAndManagement);
    let port = port::open(&spec.parse()?, &options)?;

    // With one port all goes back through the queue that it came by. Frames are moved, not copied.
    let answers = move |batch: &mut Batch| batch.retain(|frame| answer(frame, address).is_some());
    let threads = Threads::default().until(&Halt::by_signals()?);
    let running = threads.forward(vec![port], |_, out| out.before_send(answers))?;
    println!("{address} is at {STATION}");
    running.join().result().map(drop)
}

/// Turns a request for `address` into its answer, in place; `None` for anything else.
fn answer(frame: &mut Frame, address: Ipv4Addr) -> Option<()> {
    let layers = Layers::parse(frame.data()).ok()?;
    let peer = layers.ethernet.source;
    match layers.network {
        Network::Other(bytes) if layers.ethertype == EtherType::ARP => {
            let request = Arp::parse(&ArpView::new(bytes).ok()?);
            if request.operation != ArpOperation::REQUEST || request.target != address {
                return None;
            }
            let reply = packet::ethernet(STATION, peer).arp(request.reply(STATION));
            frame.fill_packet(&reply).ok()
        }
        Network::V4(header) if header.destination() == address => {
            let (source, transport) = (header.source(), layers.transport?);
            if transport.is_fragment {
                return None;
            }
            let at = transport.offset;
            let mut icmp = Icmpv4Mut::new(frame.data_mut().get_mut(at..)?).ok()?;
            let Icmpv4::EchoRequest(echo) = Icmpv4::parse(&icmp.as_view()) else { return None };
            icmp.set_message(Icmpv4::EchoReply(echo));
            // Every checksum follows.
            let mut packet = frame.packet_mut().ok()?;
            packet.set_ipv4_source(address).ok()?;
            packet.set_ipv4_destination(source).ok()?;
            packet.set_source_mac(STATION);
            packet.set_destination_mac(peer);
            Some(())
        }
        _ => None,
    }
}
