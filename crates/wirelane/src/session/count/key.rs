//! The keys of the tables: packed, and as values.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::wire::{Addresses, EtherType, Ports, Protocol};

/// The key under which packets are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The type of the network layer; for IP, also the protocol after any extension headers.
    Proto(u16, Option<Protocol>),
    /// An IP address.
    Host(IpAddr),
    /// A port of a protocol.
    Port(u16, Protocol),
    /// The name of a port or interface, and its queue: `eth0 rx 3`.
    Queue(String),
    /// The outermost and the innermost VLAN tag, if there are any.
    Vlan([Option<u16>; 2]),
    /// Both ends; the sender of the first packet is first.
    Flow(Endpoint, Endpoint, Protocol),
}

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The address.
    pub address: IpAddr,
    /// The port, if the protocol has ports.
    pub port: Option<u16>,
}

impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proto(ethertype, None) => network(*ethertype, f),
            Self::Proto(ethertype, Some(protocol)) => {
                network(*ethertype, f)?;
                write!(f, "/{protocol}")
            }
            Self::Host(address) => write!(f, "{address}"),
            Self::Port(port, protocol) => write!(f, "{port}/{protocol}"),
            Self::Queue(name) => f.write_str(name),
            Self::Vlan([None, _]) => f.write_str("untagged"),
            Self::Vlan([Some(outer), None]) => write!(f, "{outer}"),
            Self::Vlan([Some(outer), Some(inner)]) => write!(f, "{outer}.{inner}"),
            Self::Flow(one, other, protocol) => write!(f, "{one} <> {other} {protocol}"),
        }
    }
}

impl Display for Endpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}", SocketAddr::new(self.address, port)),
            None => write!(f, "{}", self.address),
        }
    }
}

/// The type of all packets of IEEE 802.3, which have a length instead of a type.
pub(super) const LLC: u16 = 0;

/// The name of a network layer, in tcpdump's language if it has one.
fn network(ethertype: u16, f: &mut Formatter<'_>) -> fmt::Result {
    let name = match ethertype {
        LLC => "llc",
        0x0800 => "ip",
        0x0806 => "arp",
        0x8035 => "rarp",
        0x86dd => "ip6",
        0x8847 | 0x8848 => "mpls",
        0x8863 => "pppoed",
        0x8864 => "pppoes",
        0x8809 => "slow",
        0x888e => "eapol",
        0x88cc => "lldp",
        0x88e5 => "macsec",
        0x88f7 => "ptp",
        _ => return write!(f, "{}", EtherType(ethertype)),
    };
    f.write_str(name)
}

/// Ethertype and protocol. The protocol is stored plus one, so that 0 means none.
#[inline]
pub(super) fn pack_proto(ethertype: EtherType, protocol: Option<Protocol>) -> u64 {
    let ethertype = if ethertype.is_length() { LLC } else { ethertype.0 };
    u64::from(ethertype) << 16 | protocol.map_or(0, |protocol| u64::from(protocol.0) + 1)
}

pub(super) fn unpack_proto(packed: u64) -> Key {
    let protocol = (packed & 0xffff).checked_sub(1).map(|protocol| Protocol(protocol as u8));
    Key::Proto((packed >> 16) as u16, protocol)
}

#[inline]
pub(super) fn pack_port(port: u16, protocol: Protocol) -> u64 {
    u64::from(port) << 8 | u64::from(protocol.0)
}

pub(super) fn unpack_port(packed: u64) -> Key {
    Key::Port((packed >> 8) as u16, Protocol(packed as u8))
}

/// Each identifier is stored plus one, so that 0 means none.
#[inline]
pub(super) fn pack_vlan([outer, inner]: [Option<u16>; 2]) -> u64 {
    let pack = |id: Option<u16>| id.map_or(0, |id| u64::from(id) + 1);
    pack(outer) << 32 | pack(inner)
}

pub(super) fn unpack_vlan(packed: u64) -> Key {
    let id = |packed: u32| packed.checked_sub(1).map(|id| id as u16);
    Key::Vlan([id((packed >> 32) as u32), id(packed as u32)])
}

/// An address. The first word distinguishes IPv4 from IPv6.
pub(super) type PackedHost = [u64; 3];

const V4: u64 = 4;
const V6: u64 = 6;

/// Source and destination.
#[inline]
pub(super) fn pack_hosts(addresses: &Addresses) -> [PackedHost; 2] {
    match *addresses {
        Addresses::V4 { source, destination } => {
            [source, destination].map(|address| [V4, 0, u64::from(u32::from(address))])
        }
        Addresses::V6 { source, destination } => [source, destination].map(|address| {
            let bits = u128::from(address);
            [V6, (bits >> 64) as u64, bits as u64]
        }),
    }
}

fn unpack_address([version, high, low]: PackedHost) -> IpAddr {
    match version {
        V4 => Ipv4Addr::from(low as u32).into(),
        _ => Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).into(),
    }
}

pub(super) fn unpack_host(packed: PackedHost) -> Key {
    Key::Host(unpack_address(packed))
}

/// Version, protocol and ports, then the addresses of both ends; the smaller end first.
pub(super) type PackedFlow = [u64; 5];

/// The flow of a packet, and whether its sender is the second end.
#[inline]
pub(super) fn pack_flow(
    [source, destination]: &[PackedHost; 2],
    protocol: Protocol,
    ports: Option<Ports>,
) -> (PackedFlow, bool) {
    let [version, source @ ..] = *source;
    let [_, destination @ ..] = *destination;
    let (from, to) = ports.map_or((0, 0), |ports| (ports.source, ports.destination));
    let is_reply = (source, from) > (destination, to);
    let (one, other, one_port, other_port) = match is_reply {
        false => (source, destination, from, to),
        true => (destination, source, to, from),
    };
    let head = version << 48
        | u64::from(protocol.0) << 40
        | u64::from(ports.is_some()) << 32
        | u64::from(one_port) << 16
        | u64::from(other_port);
    ([head, one[0], one[1], other[0], other[1]], is_reply)
}

/// The flow from the view of its first end, or of the second one if `is_reply`.
pub(super) fn unpack_flow([head, a, b, c, d]: PackedFlow, is_reply: bool) -> Key {
    let version = head >> 48;
    let end = |high, low, port: u64| Endpoint {
        address: unpack_address([version, high, low]),
        port: (head >> 32 & 1 == 1).then_some(port as u16),
    };
    let (one, other) = (end(a, b, head >> 16), end(c, d, head));
    let protocol = Protocol((head >> 40) as u8);
    if is_reply { Key::Flow(other, one, protocol) } else { Key::Flow(one, other, protocol) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(source: &str, destination: &str) -> Addresses {
        match (source.parse().unwrap(), destination.parse().unwrap()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
            (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
            _ => panic!("two families"),
        }
    }

    #[test]
    fn keys_survive_packing() {
        for (packed, text) in [
            (unpack_proto(pack_proto(EtherType::IPV4, Some(Protocol::TCP))), "ip/tcp"),
            (unpack_proto(pack_proto(EtherType::IPV6, Some(Protocol(0)))), "ip6/hop-by-hop"),
            (unpack_proto(pack_proto(EtherType::IPV6, Some(Protocol(255)))), "ip6/proto-255"),
            (unpack_proto(pack_proto(EtherType::ARP, None)), "arp"),
            (unpack_proto(pack_proto(EtherType(0x0026), None)), "llc"),
            (unpack_proto(pack_proto(EtherType(0x88b5), None)), "0x88b5"),
            (unpack_port(pack_port(65535, Protocol::UDP)), "65535/udp"),
            (unpack_vlan(pack_vlan([None, None])), "untagged"),
            (unpack_vlan(pack_vlan([Some(0), None])), "0"),
            (unpack_vlan(pack_vlan([Some(4095), Some(1)])), "4095.1"),
        ] {
            assert_eq!(packed.to_string(), text);
        }
        for text in ["0.0.0.0", "192.0.2.1", "::", "::ffff:192.0.2.1", "2001:db8::1"] {
            let [host, _] = pack_hosts(&addresses(text, text));
            assert_eq!(unpack_host(host).to_string(), text);
        }
    }

    #[test]
    fn both_directions_are_one_flow() {
        for (one, other, ports, text) in [
            ("10.0.0.1", "10.0.0.2", Some((4000, 80)), "10.0.0.1:4000 <> 10.0.0.2:80 tcp"),
            ("10.0.0.2", "10.0.0.1", Some((80, 4000)), "10.0.0.2:80 <> 10.0.0.1:4000 tcp"),
            ("10.0.0.1", "10.0.0.1", Some((1, 65535)), "10.0.0.1:1 <> 10.0.0.1:65535 tcp"),
            ("2001:db8::1", "::1", Some((1, 2)), "[2001:db8::1]:1 <> [::1]:2 tcp"),
            ("::1", "fe80::1", None, "::1 <> fe80::1 tcp"),
        ] {
            let ports = ports.map(|(source, destination)| Ports { source, destination });
            let back = ports.map(|it| Ports { source: it.destination, destination: it.source });
            let there = pack_flow(&pack_hosts(&addresses(one, other)), Protocol::TCP, ports);
            let back = pack_flow(&pack_hosts(&addresses(other, one)), Protocol::TCP, back);
            assert_eq!((there.0, !there.1), back, "{text}");
            assert_eq!(unpack_flow(there.0, there.1).to_string(), text);
        }
    }
}
