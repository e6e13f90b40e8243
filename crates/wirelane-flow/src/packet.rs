//! From the bytes of a packet to what its flow needs of it.

use wirelane_wire::flow::{Layers, Network, Transport};
use wirelane_wire::{EtherType, Link, Protocol, TcpFlags, Tunnel, TunnelKind, gre};

use crate::compact::{Compact, Ends};
use crate::icmp;

/// A packet to be metered.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Its LINKTYPE_ value.
    pub link_type: u16,
    /// What there is of it.
    pub data: &'a [u8],
    /// Its length on the wire.
    pub original_len: u32,
    /// When it was captured, in ns since 1970.
    pub time: u64,
    /// The number of its interface ([`Meter::interface`](crate::Meter::interface)).
    pub interface: u16,
    /// The queue that it came by; 0 if it is tied to none.
    pub queue: u16,
}

/// Tunnels in tunnels that are looked into.
const DEPTH: usize = 4;

/// What a packet is to its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: Compact,
    /// It is from the second end of the key to the first.
    pub(crate) is_reversed: bool,
    pub(crate) tcp: Option<Segment>,
    pub(crate) time: u64,
    pub(crate) octets: u32,
    pub(crate) payload: u32,
    pub(crate) queue: u16,
    pub(crate) dscp: u8,
    pub(crate) ecn: u8,
    pub(crate) ttl: u8,
}

/// What a TCP header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) sequence: u32,
    pub(crate) flags: TcpFlags,
    pub(crate) window: u16,
}

/// What carries a packet, and the tunnel's own ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Outer {
    pub(crate) kind: TunnelKind,
    pub(crate) ends: Ends,
    pub(crate) id: Option<u32>,
}

/// Why a packet belongs to no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmetered {
    /// It is not IP, or of a link type that is unknown here.
    NotIp,
    /// The link encrypted its content.
    Encrypted,
    /// It ends before its addresses and ports do.
    Truncated,
    /// A header holds what it must not.
    Malformed,
}

impl Seen {
    /// Decodes a packet; with the tunnel that it came through, if any.
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
        let mut ip = Ip::parse(ethertype, data.get(at..).unwrap_or_default(), original_len, at)?;
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
struct Ip<'a> {
    transport: Transport<'a>,
    /// Both ends in the order of the key, whether the packet goes the other way, and whether all of
    /// its flow goes one way.
    ends: (Ends, bool, bool),
    /// Its whole length, as its header states it.
    octets: u32,
    /// Bytes of its headers.
    header_len: u32,
    dscp: u8,
    ecn: u8,
    ttl: u8,
}

impl<'a> Ip<'a> {
    #[inline]
    fn parse(
        ethertype: EtherType,
        bytes: &'a [u8],
        original_len: u32,
        at: usize,
    ) -> Result<Self, Unmetered> {
        let (network, transport) = Layers::network(ethertype, bytes, 0).map_err(unmetered)?;
        let transport = transport.ok_or(Unmetered::NotIp)?;
        // What its link carried, for lengths that the header cannot state.
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
        let ends = Ends { first: source, second: destination, ports: [from, to], is_v6 };
        let is_reversed = !is_one_way && (source, from) > (destination, to);
        let ends = if is_reversed { ends.swapped() } else { ends };
        let ends = (ends, is_reversed, is_one_way);
        let header_len = transport.offset as u32;
        Ok(Self { transport, ends, octets, header_len, dscp, ecn, ttl })
    }

    /// Whether it may be the outside of a tunnel: quick, for most are none.
    #[inline]
    fn may_carry(&self) -> bool {
        match self.transport.protocol {
            Protocol::UDP => Tunnel::is_port(self.destination_port()),
            protocol => matches!(protocol, Protocol::GRE | Protocol::IPV4 | Protocol::IPV6),
        }
    }

    #[inline]
    fn destination_port(&self) -> u16 {
        let (Ends { ports: [first, second], .. }, is_reversed, _) = self.ends;
        if is_reversed { first } else { second }
    }

    /// The packet in it, if it is a tunnel's and holds a whole IP header. Otherwise it is a packet
    /// as any other.
    fn inside(&self) -> Option<(Self, Outer)> {
        if self.transport.is_fragment || !self.may_carry() {
            return None;
        }
        let bytes = self.transport.bytes;
        let Tunnel { kind, id, ethertype, at } = Tunnel::of(self.transport.protocol, bytes)?;
        let left = self.octets.saturating_sub(self.header_len + at as u32);
        let inside = Self::parse(ethertype, bytes.get(at..)?, left, 0).ok()?;
        let (ends, is_reversed, _) = self.ends;
        // Ports of UDP are the hash of what is inside: they are no part of the tunnel.
        let ends = if is_reversed { ends.swapped() } else { ends };
        Some((inside, Outer { kind, ends: Ends { ports: [0; 2], ..ends }, id }))
    }

    /// What its TCP header says, if it is there.
    #[inline]
    fn tcp(&self) -> Option<Segment> {
        if self.transport.protocol != Protocol::TCP || self.transport.is_fragment {
            return None;
        }
        // Not a view of the whole header: a snap length may have cut the options.
        let header = self.transport.bytes.first_chunk::<16>()?;
        let &[_, _, _, _, a, b, c, d, _, _, _, _, e, f, g, h] = header;
        Some(Segment {
            sequence: u32::from_be_bytes([a, b, c, d]),
            flags: TcpFlags::from_bits(u16::from_be_bytes([e, f])),
            window: u16::from_be_bytes([g, h]),
        })
    }

    /// Bytes above the transport header, by the lengths that headers state.
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
