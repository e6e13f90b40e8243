//! Source NAT: hosts at the inside port reach TCP, UDP and ping at the outside port by one address.
//!
//!     sudo target/release/examples/nat packet:inside packet:outside 192.0.2.1
//!     sudo target/release/examples/responder packet:outside 192.0.2.1 # answers ARP

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use wirelane::halt::Halt;
use wirelane::pipeline::Threads;
use wirelane::port::{self, OpenOptions};
use wirelane::wire::{FlowKey, MacAddr, Protocol, flow::Addresses};
use wirelane::{Error, Frame, Result};

const STATION: MacAddr = MacAddr([0x02, 0x57, 0x4c, 0, 0, 0x77]); // the responder's
/// The address, port and station of the host for each port outside. The port of ping is its number.
type Table = HashMap<(Protocol, u16), (Ipv4Addr, u16, MacAddr)>;

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [inside, outside, address] = &arguments[..] else {
        return Err(Error::usage("arguments", "two ports and an IPv4 address are needed"));
    };
    let (table, address) = (Arc::<Mutex<Table>>::default(), address.parse()?);
    let open = |port: &str| port::open(&port.parse()?, &OpenOptions::forwarder());
    let (ports, threads) = (vec![open(inside)?, open(outside)?], Threads::default());
    let running = threads.until(&Halt::by_signals()?).forward(ports, |from, out| {
        let table = Arc::clone(&table);
        out.before_send(move |batch| {
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner); // per batch
            batch.retain(|frame| translate(frame, from, address, &mut table).is_some());
        })
    })?;
    running.join().result().map(drop)
}

/// Changes addresses, ports and checksums; `None` drops the frame.
fn translate(frame: &mut Frame, from: usize, address: Ipv4Addr, table: &mut Table) -> Option<()> {
    let Some(flow) = FlowKey::parse(frame.data()).ok()? else { return Some(()) }; // such as ARP
    let Addresses::V4 { source, destination } = flow.addresses else { return None };
    let mut packet = frame.packet_mut().ok()?;
    if from == 0 {
        let port = flow.ports.map(|it| it.source).or_else(|| packet.echo_identifier())?;
        let host = (source, port, packet.source_mac());
        // The port that the host uses, or the next one that no other host uses.
        let mut free = (port..=u16::MAX).chain(1024..port);
        let port = free.find(|it| *table.entry((flow.protocol, *it)).or_insert(host) == host)?;
        packet.set_source_mac(STATION);
        packet.set_ipv4_source(address).ok()?;
        packet.set_source_port(port).or_else(|_| packet.set_echo_identifier(port)).ok()
    } else {
        let port = flow.ports.map(|it| it.destination).or_else(|| packet.echo_identifier())?;
        let known = table.get(&(flow.protocol, port)).filter(|_| destination == address);
        let (host, port, station) = *known?;
        packet.set_destination_mac(station);
        packet.set_ipv4_destination(host).ok()?;
        packet.set_destination_port(port).or_else(|_| packet.set_echo_identifier(port)).ok()
    }
}
