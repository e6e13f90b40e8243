//! Decodes packets to the values that their flow needs.

use wirelane_wire::flow::{Layers, Network, Transport};
use wirelane_wire::{EtherType, Link, Protocol, TcpFlags, Tunnel, TunnelKind, gre};

use crate::compact::{Compact, Endpoints};
use crate::icmp;

/// A packet to meter.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its LINKTYPE_ value.
    pub link_type: u16,
    /// The captured bytes.
    pub data: &'a [u8],
    /// Its length on the wire.
    pub original_len: u32,
    /// The capture time, in ns since 1970.
    pub time: u64,
    /// The number of its interface ([`Meter::interface`](crate::Meter::interface)).
    pub interface: u16,
    /// Its receive queue; 0 if it has none.
    pub queue: u16,
}

/// The most nested tunnels to decode.
const DEPTH: usize = 4;

/// The decoded values of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodedPacket {
    pub(crate) key: Compact,
    /// Whether the packet is from the second end of the key to the first.
    pub(crate) is_reversed: bool,
    pub(crate) tcp: Option<TcpValues>,
    pub(crate) time: u64,
    pub(crate) octets: u32,
    pub(crate) payload: u32,
    pub(crate) queue: u16,
    pub(crate) dscp: u8,
    pub(crate) ecn: u8,
    pub(crate) ttl: u8,
}

/// Values of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpValues {
    pub(crate) sequence: u32,
    pub(crate) flags: TcpFlags,
    pub(crate) window: u16,
}

/// A tunnel: its kind, endpoints and identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Outer {
    pub(crate) kind: TunnelKind,
    pub(crate) ends: Endpoints,
    pub(crate) id: Option<u32>,
}

/// Why a packet belongs to no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmetered {
    /// The packet is not IP, or has an unsupported link type.
    NotIp,
    /// The link layer encrypted the content.
    Encrypted,
    /// The captured bytes end before the addresses and ports.
    Truncated,
    /// A header has invalid values.
    Malformed,
}

impl DecodedPacket {
    /// Decodes a packet. Returns its values and its innermost tunnel, if any.
    pub(crate) fn of(packet: &Packet<'_>) -> Result<(Self, Option<Outer>), Unmetered> {
        let Packet { link_type, data, original_len, time, interface, queue } = *packet;
        let link = Link::parse(link_type, data);
        let (ethertype, at, outer_vlan, inner_vlan) = match link {
            Link::Network { ethertype, at, outer_vlan, inner_vlan } => {
                (ethertype, at, outer_vlan, inner_vlan)
            }
            Link::Encrypted => return Err(Unmetered::Encrypted),
            Link::Control | Link::Unknown | Link::Short => return Err(Unmetered::NotIp),
        };
        if ethertype != EtherType::IPV4 && ethertype != EtherType::IPV6 {
            return Err(Unmetered::NotIp);
        }
        let mut ip =
            IpValues::parse(ethertype, data.get(at..).unwrap_or_default(), original_len, at)?;
        let mut outer = None;
        if ip.may_carry() {
            for _ in 0..DEPTH {
                let Some((inside, through)) = ip.inside() else { break };
                (ip, outer) = (inside, Some(through));
            }
        }
        let (ends, is_reversed, is_one_way) = ip.ends;
        let key = Compact::new(ends, ip.transport.protocol, is_one_way)
            .on(interface)
            .tagged(outer_vlan, inner_vlan);
        let seen = Self {
            key,
            is_reversed,
            tcp: ip.tcp(),
            time,
            octets: ip.octets,
            payload: ip.payload(),
            queue,
            dscp: ip.dscp,
            ecn: ip.ecn,
            ttl: ip.ttl,
        };
        Ok((seen, outer))
    }
}

/// An IP packet.
#[derive(Clone, Copy)]
struct IpValues<'a> {
    transport: Transport<'a>,
    /// Both ends in the order of the key, whether the packet has the opposite direction, and
    /// whether the flow is one-way.
    ends: (Endpoints, bool, bool),
    /// The total length from its header.
    octets: u32,
    /// The length of its headers, including extension headers.
    header_len: u32,
    dscp: u8,
    ecn: u8,
    ttl: u8,
}

impl<'a> IpValues<'a> {
    #[inline]
    fn parse(
        ethertype: EtherType,
        bytes: &'a [u8],
        original_len: u32,
        at: usize,
    ) -> Result<Self, Unmetered> {
        let (network, transport) = Layers::network(ethertype, bytes, 0).map_err(unmetered)?;
        let transport = transport.ok_or(Unmetered::NotIp)?;
        // The length of the link's payload, for lengths that the header cannot express.
        let carried = || original_len.saturating_sub(at as u32);
        let (octets, dscp, ecn, ttl) = match &network {
            Network::V4(view) => {
                let octets = match view.total_len() {
                    0 => carried(),
                    stated => stated.into(),
                };
                (octets, view.dscp(), view.ecn(), view.ttl())
            }
            Network::V6(view) => {
                let octets = match view.payload_len() {
                    // RFC 2675, and BIG TCP.
                    0 if carried() > u16::MAX.into() => carried(),
                    stated => u32::from(stated) + wirelane_wire::ipv6::LEN as u32,
                };
                (octets, view.dscp(), view.ecn(), view.hop_limit())
            }
            Network::Other(_) => return Err(Unmetered::NotIp),
        };
        let (ports, is_one_way) = match transport.protocol {
            _ if transport.is_fragment => ([0; 2], false),
            Protocol::ICMP | Protocol::ICMPV6 => {
                let &[kind, code, ..] = transport.bytes else { return Err(Unmetered::Truncated) };
                icmp::ports(transport.protocol, kind, code)
            }
            _ => match transport.ports().map_err(unmetered)? {
                Some(ports) => ([ports.source, ports.destination], false),
                None => ([0; 2], false),
            },
        };
        let (source, destination, is_v6) = match &network {
            Network::V4(view) => (
                [0, u64::from(u32::from(view.source()))],
                [0, u64::from(u32::from(view.destination()))],
                false,
            ),
            Network::V6(view) => {
                let halves = |address: std::net::Ipv6Addr| {
                    let bits = u128::from(address);
                    [(bits >> 64) as u64, bits as u64]
                };
                (halves(view.source()), halves(view.destination()), true)
            }
            Network::Other(_) => return Err(Unmetered::NotIp),
        };
        let [from, to] = ports;
        let ends = Endpoints { first: source, second: destination, ports: [from, to], is_v6 };
        let is_reversed = !is_one_way && (source, from) > (destination, to);
        let ends = if is_reversed { ends.swapped() } else { ends };
        let ends = (ends, is_reversed, is_one_way);
        let header_len = transport.offset as u32;
        Ok(Self { transport, ends, octets, header_len, dscp, ecn, ttl })
    }

    /// Whether the packet may belong to a tunnel. This check is fast, as most packets do not.
    #[inline]
    fn may_carry(&self) -> bool {
        match self.transport.protocol {
            Protocol::UDP => Tunnel::is_port(self.destination_port()),
            protocol => matches!(protocol, Protocol::GRE | Protocol::IPV4 | Protocol::IPV6),
        }
    }

    #[inline]
    fn destination_port(&self) -> u16 {
        let (Endpoints { ports: [first, second], .. }, is_reversed, _) = self.ends;
        if is_reversed { first } else { second }
    }

    /// The inner packet of a tunnel, if its IP header is complete. Otherwise the packet is metered
    /// like any other.
    fn inside(&self) -> Option<(Self, Outer)> {
        if self.transport.is_fragment || !self.may_carry() {
            return None;
        }
        let bytes = self.transport.bytes;
        let Tunnel { kind, id, ethertype, at } = Tunnel::of(self.transport.protocol, bytes)?;
        let left = self.octets.saturating_sub(self.header_len + at as u32);
        let inside = Self::parse(ethertype, bytes.get(at..)?, left, 0).ok()?;
        let (ends, is_reversed, _) = self.ends;
        // The UDP source port is a hash of the inner packet, so the ports do not identify the
        // tunnel.
        let ends = if is_reversed { ends.swapped() } else { ends };
        Some((inside, Outer { kind, ends: Endpoints { ports: [0; 2], ..ends }, id }))
    }

    /// The values of its TCP header, if present.
    #[inline]
    fn tcp(&self) -> Option<TcpValues> {
        if self.transport.protocol != Protocol::TCP || self.transport.is_fragment {
            return None;
        }
        // Parses only the fixed part: a snap length may have cut the options.
        let header = self.transport.bytes.first_chunk::<16>()?;
        let &[_, _, _, _, a, b, c, d, _, _, _, _, e, f, g, h] = header;
        Some(TcpValues {
            sequence: u32::from_be_bytes([a, b, c, d]),
            flags: TcpFlags::from_bits(u16::from_be_bytes([e, f])),
            window: u16::from_be_bytes([g, h]),
        })
    }

    /// The payload of the transport header, computed from the lengths in the headers.
    #[inline]
    fn payload(&self) -> u32 {
        let bytes = self.octets.saturating_sub(self.header_len);
        if self.transport.is_fragment {
            return bytes;
        }
        bytes.saturating_sub(match self.transport.protocol {
            Protocol::TCP => self.transport.bytes.get(12).map_or(20, |it| u32::from(it >> 4) * 4),
            Protocol::UDP | Protocol::UDP_LITE | Protocol::ICMP | Protocol::ICMPV6 => 8,
            Protocol::SCTP | Protocol::DCCP => 12,
            Protocol::GRE => gre::MIN_LEN as u32,
            _ => 0,
        })
    }
}

#[cold]
fn unmetered(error: wirelane_wire::WireError) -> Unmetered {
    match error {
        wirelane_wire::WireError::Truncated { .. } => Unmetered::Truncated,
        _ => Unmetered::Malformed,
    }
}
