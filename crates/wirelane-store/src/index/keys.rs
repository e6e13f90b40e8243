//! The keys of a packet, as in the table of the [module](super) documentation.

use super::ends::PacketEndpoints;
use super::flow::FlowId;
use super::layout::{Layout, TAGS};
use super::load::{FRAGMENT, IPV4, IPV6, short};
use crate::key::Field;

/// Passes every key of the packet to `visit`, some of them more than once.
#[inline]
pub fn keys(link_type: u16, data: &[u8], visit: impl FnMut(Field, u128)) {
    visit_keys(link_type, data, &mut Each(visit));
}

impl FlowId {
    /// The flow of a packet.
    #[must_use]
    pub fn of(link_type: u16, data: &[u8]) -> Option<Self> {
        let mut wanted = FlowOnly(None);
        visit_keys(link_type, data, &mut wanted);
        wanted.0
    }
}

/// Receives the keys of a packet.
pub(super) trait Visit {
    /// A key of `EtherType`, `Vlan` or `Protocol`.
    fn short(&mut self, field: Field, value: u16);
    /// Its other keys, if it is IPv4 or ARP.
    fn ipv4(&mut self, ends: &PacketEndpoints<u32>);
    /// Its other keys, if it is IPv6.
    fn ipv6(&mut self, ends: &PacketEndpoints<u128>);
}

/// Passes the keys of a packet to `visit`.
#[inline]
pub(super) fn visit_keys(link_type: u16, data: &[u8], visit: &mut impl Visit) {
    if let Some((ether_type, network)) = visit_link(link_type, data, visit) {
        visit_network(ether_type, network, visit);
    }
}

/// Visits the link header. Returns the type of the network header, and the bytes from it on.
#[inline]
fn visit_link<'a>(
    link_type: u16,
    data: &'a [u8],
    visit: &mut impl Visit,
) -> Option<(u16, &'a [u8])> {
    if let (1, Some(bytes)) = (link_type, data.get(12..14)) {
        let ether_type = u16::from_be_bytes([bytes[0], bytes[1]]);
        if matches!(ether_type, IPV4 | IPV6) {
            visit.short(Field::EtherType, ether_type);
            return Some((ether_type, &data[14..]));
        }
    }
    visit_other_link(link_type, data, visit)
}

/// Like [`visit_link`], except for plain IP in Ethernet.
fn visit_other_link<'a>(
    link_type: u16,
    data: &'a [u8],
    visit: &mut impl Visit,
) -> Option<(u16, &'a [u8])> {
    let layout = Layout::of(link_type)?;
    let Some(mut at) = layout.ether_type else {
        let ether_type = match data.first()? & 0xF0 {
            0x40 => IPV4,
            0x60 => IPV6,
            _ => return None,
        };
        visit.short(Field::EtherType, ether_type);
        return Some((ether_type, data));
    };
    let mut ether_type = short(data, at)?;
    visit.short(Field::EtherType, ether_type);
    let mut network = layout.network;
    for _ in 0..Layout::MAX_TAGS {
        if !layout.tags || !TAGS.contains(&ether_type) {
            break;
        }
        visit.short(Field::Vlan, short(data, at + 2)? & 0x0FFF);
        (at, network) = (at + 4, network + 4);
        ether_type = short(data, at)?;
        visit.short(Field::EtherType, ether_type);
    }
    Some((ether_type, data.get(network..)?))
}

#[inline]
fn visit_network(ether_type: u16, data: &[u8], visit: &mut impl Visit) {
    match ether_type {
        IPV4 => {
            let Some(&protocol) = data.get(9) else { return };
            visit.short(Field::Protocol, protocol.into());
            visit.ipv4(&PacketEndpoints::of_ipv4(protocol, data));
        }
        IPV6 => {
            let Some(&next) = data.get(6) else { return };
            visit.short(Field::Protocol, next.into());
            if next == FRAGMENT
                && let Some(&behind) = data.get(40)
            {
                visit.short(Field::Protocol, behind.into());
            }
            visit.ipv6(&PacketEndpoints::of_ipv6(next, data));
        }
        0x0806 | 0x8035 => visit.ipv4(&PacketEndpoints::of_arp(data)),
        _ => {}
    }
}

/// Passes on each key separately.
struct Each<F>(F);

impl<F: FnMut(Field, u128)> Each<F> {
    fn ends<A: Copy + Into<u128>>(&mut self, field: Field, ends: &PacketEndpoints<A>) {
        ends.addresses().iter().for_each(|address| (self.0)(field, (*address).into()));
        ends.ports().for_each(|port| (self.0)(Field::Port, port.into()));
        if let Some(flow) = ends.flow() {
            (self.0)(Field::Flow, flow.key().into());
        }
    }
}

impl<F: FnMut(Field, u128)> Visit for Each<F> {
    fn short(&mut self, field: Field, value: u16) {
        (self.0)(field, value.into());
    }
    fn ipv4(&mut self, ends: &PacketEndpoints<u32>) {
        self.ends(Field::Ipv4, ends);
    }
    fn ipv6(&mut self, ends: &PacketEndpoints<u128>) {
        self.ends(Field::Ipv6, ends);
    }
}

/// Stores only the flow.
struct FlowOnly(Option<FlowId>);

impl Visit for FlowOnly {
    fn short(&mut self, _: Field, _: u16) {}
    fn ipv4(&mut self, ends: &PacketEndpoints<u32>) {
        self.0 = ends.flow();
    }
    fn ipv6(&mut self, ends: &PacketEndpoints<u128>) {
        self.0 = ends.flow();
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
