//! Source NAT: hosts at the inside port reach TCP, UDP and ping at the outside port by one address.
//!
//!     cargo run --release -p wirelane --example nat -- packet:inside packet:outside 192.0.2.1
//!     cargo run --release -p wirelane --example responder -- packet:outside 192.0.2.1
//!
//! It has no address itself and passes on what is not IP. The responder answers ARP for the
//! address.
#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use wirelane::halt::Halt;
use wirelane::pipeline::Threads;
use wirelane::port::{self, OpenOptions};
use wirelane::wire::{FlowKey, MacAddr, Protocol, flow::Addresses};
use wirelane::{Batch, Error, Frame, Result};

/// The responder's station: what comes for the address is sent to it.
const STATION: MacAddr = MacAddr([0x02, 0x57, 0x4c, 0, 0, 0x77]);

/// An address and a port; of a ping, its identifier.
type Endpoint = (Protocol, Ipv4Addr, u16);

struct Nat {
    address: Ipv4Addr,
    /// The port outside for each endpoint inside, and back, with the station of the host.
    ports: HashMap<Endpoint, u16>,
    hosts: HashMap<(Protocol, u16), (Endpoint, MacAddr)>,
    next: u16,
}

impl Nat {
    /// Translates a frame from the inside; `None` drops it.
    fn leave(&mut self, frame: &mut Frame) -> Option<()> {
        let Some(flow) = FlowKey::parse(frame.data()).ok()? else { return Some(()) };
        let Addresses::V4 { source, .. } = flow.addresses else { return None };
        let mut packet = frame.packet_mut().ok()?;
        let port = flow.ports.map(|it| it.source).or_else(|| packet.echo_identifier())?;
        let endpoint = (flow.protocol, source, port);
        let known = self.ports.get(&endpoint).copied();
        let outer = known.unwrap_or_else(|| self.connect(endpoint, packet.source_mac()));
        packet.set_source_mac(STATION);
        packet.set_ipv4_source(self.address).ok()?;
        packet.set_source_port(outer).or_else(|_| packet.set_echo_identifier(outer)).ok()
    }

    /// Translates a frame from the outside; `None` drops it.
    fn enter(&mut self, frame: &mut Frame) -> Option<()> {
        let Some(flow) = FlowKey::parse(frame.data()).ok()? else { return Some(()) };
        let mut packet = frame.packet_mut().ok()?;
        let outer = flow.ports.map(|it| it.destination).or_else(|| packet.echo_identifier())?;
        let ((_, host, port), mac) = *self.hosts.get(&(flow.protocol, outer))?;
        (flow.addresses.destination() == IpAddr::V4(self.address)).then_some(())?;
        packet.set_destination_mac(mac);
        packet.set_ipv4_destination(host).ok()?;
        packet.set_destination_port(port).or_else(|_| packet.set_echo_identifier(port)).ok()
    }

    /// Takes the next port outside. When all are in use, the oldest connection makes room.
    fn connect(&mut self, endpoint: Endpoint, mac: MacAddr) -> u16 {
        let outer = self.next;
        self.next = outer.checked_add(1).unwrap_or(1024);
        if let Some((old, _)) = self.hosts.insert((endpoint.0, outer), (endpoint, mac)) {
            self.ports.remove(&old);
        }
        self.ports.insert(endpoint, outer);
        outer
    }
}

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [inside, outside, address] = &arguments[..] else {
        return Err(Error::usage("arguments", "two ports and an IPv4 address are needed"));
    };
    let address = address.parse().map_err(|_| Error::usage(address, "not an IPv4 address"))?;
    let open = |port: &str| port::open(&port.parse()?, &OpenOptions::forwarder());
    let ports = vec![open(inside)?, open(outside)?];

    let nat = Nat { address, ports: HashMap::new(), hosts: HashMap::new(), next: 1024 };
    let nat = Arc::new(Mutex::new(nat));
    // Each TX queue has a thread; all share the table, whose lock is taken once per batch.
    let threads = Threads::default().until(&Halt::by_signals()?);
    let running = threads.forward(ports, |from, out| {
        let (leaves, nat) = (from == 0, Arc::clone(&nat));
        let translate = move |batch: &mut Batch| {
            let mut nat = nat.lock().unwrap_or_else(PoisonError::into_inner);
            batch.retain(|it| if leaves { nat.leave(it) } else { nat.enter(it) }.is_some());
        };
        out.before_send(translate)
    })?;
    let outcome = running.join();
    // What could not be translated was filtered; what found no room was dropped, as a switch does.
    outcome.queues.iter().for_each(|queue| println!("{queue}"));
    outcome.result().map(drop)
}
