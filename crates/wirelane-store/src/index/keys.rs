//! The keys of a packet, as the table in the documentation of the [module](super) says.

use super::flow::FlowId;
use super::link::{Visit, visit_link};
use super::load::{FRAGMENT, IPV4, IPV6, fragment_offset, has_ports, header_len, short, word};
use crate::key::Field;

const ARP: [u16; 2] = [0x0806, 0x8035];

/// Hands every key of the packet to `visit`; the same key may come twice.
#[inline]
pub fn keys(link_type: u16, data: &[u8], visit: impl FnMut(Field, u128)) {
    struct Visitor<F>(F);
    impl<F: FnMut(Field, u128)> Visit for Visitor<F> {
        fn short(&mut self, field: Field, value: u16) {
            (self.0)(field, value.into());
        }
        fn word(&mut self, field: Field, value: u32) {
            (self.0)(field, value.into());
        }
        fn ipv6(&mut self, address: u128) {
            (self.0)(Field::Ipv6, address);
        }
    }
    visit_keys(link_type, data, &mut Visitor(visit));
}

#[inline]
pub(super) fn visit_keys(link_type: u16, data: &[u8], visit: &mut impl Visit) {
    let Some(network) = visit_link(link_type, data, visit) else { return };
    match network.ether_type {
        IPV4 => visit_ipv4(network.data, visit),
        IPV6 => visit_ipv6(network.data, visit),
        other if ARP.contains(&other) => {
            for at in [14, 24] {
                if let Some(address) = word(network.data, at) {
                    visit.word(Field::Ipv4, address);
                }
            }
            return;
        }
        _ => return,
    }
    if let Some(flow) = FlowId::of_network(network) {
        visit.word(Field::Flow, flow.key());
    }
}

#[inline]
fn visit_ipv4(data: &[u8], visit: &mut impl Visit) {
    let Some(&protocol) = data.get(9) else { return };
    visit.short(Field::Protocol, protocol.into());
    for at in [12, 16] {
        if let Some(address) = word(data, at) {
            visit.word(Field::Ipv4, address);
        }
    }
    if !has_ports(protocol) || fragment_offset(data) != 0 {
        return;
    }
    visit_ports(data, header_len(data), visit);
}

#[inline]
fn visit_ipv6(data: &[u8], visit: &mut impl Visit) {
    let Some(&next) = data.get(6) else { return };
    visit.short(Field::Protocol, next.into());
    if next == FRAGMENT
        && let Some(&behind) = data.get(40)
    {
        visit.short(Field::Protocol, behind.into());
    }
    for at in [8, 24] {
        if let Some(address) = ipv6_address(data, at) {
            visit.ipv6(address);
        }
    }
    if has_ports(next) {
        visit_ports(data, 40, visit);
    }
}

#[inline]
fn visit_ports(data: &[u8], at: usize, visit: &mut impl Visit) {
    for at in [at, at + 2] {
        if let Some(port) = short(data, at) {
            visit.short(Field::Port, port);
        }
    }
}

/// An address, with zeros for the words that were not captured; `None` if none was.
#[inline]
fn ipv6_address(data: &[u8], at: usize) -> Option<u128> {
    if let Some(bytes) = data.get(at..).and_then(|rest| rest.first_chunk()) {
        return Some(u128::from_be_bytes(*bytes));
    }
    let first = word(data, at)?;
    let later = [4, 8, 12].map(|more| word(data, at + more).unwrap_or(0));
    Some(later.iter().fold(first.into(), |address, word| address << 32 | u128::from(*word)))
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
