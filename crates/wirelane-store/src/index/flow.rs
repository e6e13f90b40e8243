//! Which conversation a packet belongs to.

use super::link::{Network, Visit, visit_link};
use super::load::{FRAGMENT, IPV4, IPV6, fragment_offset, has_ports, header_len, short, word};
use crate::key::{Field, Term};

/// Extension headers that are passed.
const MAX_EXTENSIONS: usize = 8;

/// A conversation: two endpoints and a protocol, the same for both directions.
///
/// VLAN tags and link types make no difference. A packet has a flow if it is IPv4 or IPv6 (see
/// [`Layout`](super::Layout)) and its addresses are captured. The protocol is the one behind the
/// extension headers of IPv6. Ports are those of TCP, UDP and SCTP; they are 0 where the packet has
/// none: another protocol, a fragment other than the first, or a packet cut off before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    /// Address and port; those of IPv4 are the last 32 bits. The lesser one is first.
    endpoints: [(u128, u16); 2],
    protocol: u8,
    version: u8,
}

impl FlowId {
    /// The flow of a packet.
    #[inline]
    #[must_use]
    pub fn of(link_type: u16, data: &[u8]) -> Option<Self> {
        Self::of_network(visit_link(link_type, data, &mut Nobody)?)
    }

    /// The flow of a packet of this type, from its network header on.
    #[inline]
    pub(super) fn of_network(network: Network<'_>) -> Option<Self> {
        match network.ether_type {
            IPV4 => of_ipv4(network.data),
            IPV6 => of_ipv6(network.data),
            _ => None,
        }
    }

    /// Its key in an index.
    ///
    /// `h` = 0; then for each word `w` of 64 bits: `h` = the upper half of (`h` ^ `w`) ×
    /// 0x9E3779B97F4A7C15 ^ the lower half of that product of 128 bits. The key is the upper half of
    /// the last `h`. The words are, for IPv4: the lesser endpoint's address, shifted left by 32, plus
    /// the other's; for IPv6: both halves of the lesser endpoint's address, then both of the
    /// other's; then for both: the lesser endpoint's port shifted left by 48, plus the other's shifted
    /// by 32, plus the protocol shifted by 8, plus 4 or 6. Endpoints compare by address, then by port.
    #[inline]
    #[must_use]
    pub fn key(&self) -> u32 {
        let [(first, first_port), (second, second_port)] = self.endpoints;
        let ports = u64::from(first_port) << 48 | u64::from(second_port) << 32;
        let last = ports | u64::from(self.protocol) << 8 | u64::from(self.version);
        let addresses = if self.version == 4 {
            fold(0, (first as u64) << 32 | second as u64)
        } else {
            [first, second]
                .into_iter()
                .fold(0, |hash, address| fold(fold(hash, (address >> 64) as u64), address as u64))
        };
        (fold(addresses, last) >> 32) as u32
    }

    /// The condition that an index answers.
    #[must_use]
    pub fn term(&self) -> Term {
        Term::equal(Field::Flow, self.key())
    }

    /// Of a packet with these addresses, source first, and ports.
    #[inline]
    pub(crate) fn new(version: u8, protocol: u8, addresses: [u128; 2], ports: [u16; 2]) -> Self {
        let mut endpoints = [(addresses[0], ports[0]), (addresses[1], ports[1])];
        if endpoints[1] < endpoints[0] {
            endpoints.swap(0, 1);
        }
        Self { endpoints, protocol, version }
    }
}

#[inline]
fn fold(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * 0x9E37_79B9_7F4A_7C15;
    (product >> 64) as u64 ^ product as u64
}

#[inline]
fn of_ipv4(data: &[u8]) -> Option<FlowId> {
    let (&protocol, source) = (data.get(9)?, word(data, 12)?);
    let destination = word(data, 16)?;
    let ports = match has_ports(protocol) && fragment_offset(data) == 0 {
        true => ports(data, header_len(data)),
        false => [0; 2],
    };
    Some(FlowId::new(4, protocol, [source.into(), destination.into()], ports))
}

#[inline]
fn of_ipv6(data: &[u8]) -> Option<FlowId> {
    let address = |at: usize| data.get(at..)?.first_chunk().map(|it| u128::from_be_bytes(*it));
    let addresses = [address(8)?, address(24)?];
    let (mut protocol, mut at) = (*data.get(6)?, 40);
    for _ in 0..MAX_EXTENSIONS {
        let (Some(&next), Some(&len)) = (data.get(at), data.get(at + 1)) else { break };
        let len = match protocol {
            0 | 43 | 60 => (usize::from(len) + 1) * 8,
            51 => (usize::from(len) + 2) * 4,
            FRAGMENT => 8,
            _ => break,
        };
        let is_later =
            protocol == FRAGMENT && short(data, at + 2).is_some_and(|word| word & 0xFFF8 != 0);
        (protocol, at) = (next, at + len);
        if is_later {
            return Some(FlowId::new(6, protocol, addresses, [0; 2]));
        }
    }
    let ports = if has_ports(protocol) { ports(data, at) } else { [0; 2] };
    Some(FlowId::new(6, protocol, addresses, ports))
}

#[inline]
fn ports(data: &[u8], at: usize) -> [u16; 2] {
    match (short(data, at), short(data, at + 2)) {
        (Some(source), Some(destination)) => [source, destination],
        _ => [0; 2],
    }
}

/// Who wants no keys.
struct Nobody;

impl Visit for Nobody {
    fn short(&mut self, _: Field, _: u16) {}
    fn word(&mut self, _: Field, _: u32) {}
    fn ipv6(&mut self, _: u128) {}
}
