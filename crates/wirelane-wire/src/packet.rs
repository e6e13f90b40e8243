//! Builds packets: the caller names the layers from the outside in, and every length, EtherType,
//! protocol number and checksum is computed.
//!
//! ```
//! use wirelane_wire::{MacAddr, Tcp, TcpFlags, packet};
//!
//! let (here, there) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
//! let syn = packet::ethernet(here, there)
//!     .vlan(100)
//!     .ipv6("2001:db8::1".parse()?, "2001:db8::2".parse()?)
//!     .ttl(255)
//!     .tcp(Tcp { flags: TcpFlags::SYN, ..Tcp::between(40_000, 443) }, b"");
//!
//! let mut frame = [0; 1514];
//! let len = syn.emit(&mut frame)?;
//! assert_eq!(len, 14 + 4 + 40 + 20);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::arp::Arp;
use crate::checksum::{Sum, pseudo_v4, pseudo_v6};
use crate::error::WireError;
use crate::ethernet::{EtherType, Ethernet, MacAddr};
use crate::icmpv4::Icmpv4;
use crate::icmpv6::Icmpv6;
use crate::ipv4::Ipv4;
use crate::ipv6::Ipv6;
use crate::ndp::Neighbor;
use crate::protocol::Protocol;
use crate::tcp::Tcp;
use crate::udp::Udp;
use crate::vlan::Vlan;
use crate::{arp, ethernet, icmpv4, icmpv6, ipv4, ipv6, ndp, tcp, udp, vlan};

/// Begins a frame with its Ethernet addresses.
pub const fn ethernet(source: MacAddr, destination: MacAddr) -> Link {
    Link { source, destination, tags: [None; 2] }
}

/// A frame with addresses and optional tags.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    source: MacAddr,
    destination: MacAddr,
    /// The outer tag first.
    tags: [Option<u16>; 2],
}

impl Link {
    /// Adds a VLAN tag. A second call adds an inner tag, and makes the outer tag a service tag
    /// (IEEE 802.1ad); further calls replace the inner tag.
    #[must_use]
    pub const fn vlan(mut self, id: u16) -> Self {
        match self.tags {
            [None, _] => self.tags[0] = Some(id),
            _ => self.tags[1] = Some(id),
        }
        self
    }

    /// An ARP message.
    pub const fn arp<'a>(self, message: Arp) -> Packet<'a> {
        Packet { link: self, network: NetworkPart::Arp(message), payload: &[] }
    }

    /// A payload of any other protocol.
    pub const fn other(self, ethertype: EtherType, payload: &[u8]) -> Packet<'_> {
        Packet { link: self, network: NetworkPart::Other(ethertype), payload }
    }

    /// An IPv4 packet.
    pub const fn ipv4(self, source: Ipv4Addr, destination: Ipv4Addr) -> Internet4 {
        let header = Ipv4 {
            source,
            destination,
            protocol: Protocol::NO_NEXT_HEADER,
            ttl: 64,
            dscp: 0,
            ecn: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: 0,
            options: &[],
        };
        Internet4 { link: self, header }
    }

    /// An IPv6 packet.
    pub const fn ipv6(self, source: Ipv6Addr, destination: Ipv6Addr) -> Internet6 {
        let header = Ipv6 {
            source,
            destination,
            next_header: Protocol::NO_NEXT_HEADER,
            hop_limit: 64,
            dscp: 0,
            ecn: 0,
            flow_label: 0,
            payload_len: 0,
        };
        Internet6 { link: self, header }
    }

    const fn len(&self) -> usize {
        let [outer, inner] = self.tags;
        ethernet::LEN + vlan::LEN * (outer.is_some() as usize + inner.is_some() as usize)
    }

    /// Writes header and tags, before a payload of type `ethertype`.
    fn emit(&self, ethertype: EtherType, frame: &mut [u8]) -> Result<(), WireError> {
        let kinds = match self.tags {
            [None, _] => [ethertype; 3],
            [_, None] => [EtherType::VLAN, ethertype, ethertype],
            _ => [EtherType::QINQ, EtherType::VLAN, ethertype],
        };
        let (source, destination) = (self.source, self.destination);
        let mut at = Ethernet { destination, source, ethertype: kinds[0] }.emit(frame)?;
        for (id, ethertype) in self.tags.iter().flatten().zip(&kinds[1..]) {
            let tag = Vlan { priority: 0, drop_eligible: false, id: *id, ethertype: *ethertype };
            at += tag.emit(rest(frame, at))?;
        }
        Ok(())
    }
}

/// A frame with an IPv4 header. The TTL is 64, and fragmentation is forbidden.
#[derive(Clone, Copy, Debug)]
pub struct Internet4 {
    link: Link,
    header: Ipv4<'static>,
}

/// A frame with an IPv6 header. The hop limit is 64.
#[derive(Clone, Copy, Debug)]
pub struct Internet6 {
    link: Link,
    header: Ipv6,
}

/// Setters that both versions of IP share.
macro_rules! internet {
    ($name:ident, $network:ident, $ttl:ident) => {
        impl $name {
            /// Sets the TTL or hop limit.
            #[must_use]
            pub const fn ttl(mut self, ttl: u8) -> Self {
                self.header.$ttl = ttl;
                self
            }

            /// Sets the differentiated-services code point, 0 to 63.
            #[must_use]
            pub const fn dscp(mut self, dscp: u8) -> Self {
                self.header.dscp = dscp;
                self
            }

            /// Sets the congestion-notification bits, 0 to 3.
            #[must_use]
            pub const fn ecn(mut self, ecn: u8) -> Self {
                self.header.ecn = ecn;
                self
            }

            /// A UDP datagram.
            pub const fn udp(self, source: u16, destination: u16, payload: &[u8]) -> Packet<'_> {
                self.carry(UpperPart::Udp { source, destination }, payload)
            }

            /// A TCP segment. The checksum in `header` is ignored; see [`Tcp::between`].
            pub const fn tcp<'a>(self, header: Tcp<'a>, payload: &'a [u8]) -> Packet<'a> {
                self.carry(UpperPart::Tcp(header), payload)
            }

            /// A payload of any other protocol, without a checksum.
            pub const fn other(self, protocol: Protocol, payload: &[u8]) -> Packet<'_> {
                self.carry(UpperPart::Other(protocol), payload)
            }

            const fn carry<'a>(self, upper: UpperPart<'a>, payload: &'a [u8]) -> Packet<'a> {
                Packet {
                    link: self.link,
                    network: NetworkPart::$network(self.header, upper),
                    payload,
                }
            }
        }
    };
}

internet!(Internet4, V4, ttl);
internet!(Internet6, V6, hop_limit);

impl Internet4 {
    /// An ICMP message.
    pub const fn icmp(self, message: Icmpv4, payload: &[u8]) -> Packet<'_> {
        self.carry(UpperPart::Icmpv4(message), payload)
    }

    /// Sets the identification of fragments of this packet, and permits fragmentation.
    #[must_use]
    pub const fn identification(mut self, identification: u16) -> Self {
        self.header.identification = identification;
        self.header.dont_fragment = false;
        self
    }
}

impl Internet6 {
    /// An ICMPv6 message.
    pub const fn icmp(self, message: Icmpv6, payload: &[u8]) -> Packet<'_> {
        self.carry(UpperPart::Icmpv6(message), payload)
    }

    /// A neighbour solicitation or advertisement, with the required hop limit.
    pub const fn neighbor<'a>(self, message: Neighbor) -> Packet<'a> {
        self.ttl(ndp::HOP_LIMIT).carry(UpperPart::Neighbor(message), &[])
    }

    /// Sets the flow label, 20 bits.
    #[must_use]
    pub const fn flow_label(mut self, label: u32) -> Self {
        self.header.flow_label = label;
        self
    }
}

/// A complete packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    link: Link,
    network: NetworkPart<'a>,
    payload: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
enum NetworkPart<'a> {
    Arp(Arp),
    V4(Ipv4<'static>, UpperPart<'a>),
    V6(Ipv6, UpperPart<'a>),
    Other(EtherType),
}

#[derive(Clone, Copy, Debug)]
enum UpperPart<'a> {
    Udp { source: u16, destination: u16 },
    Tcp(Tcp<'a>),
    Icmpv4(Icmpv4),
    Icmpv6(Icmpv6),
    Neighbor(Neighbor),
    Other(Protocol),
}

impl Packet<'_> {
    /// Bytes that [`emit`](Self::emit) writes. It does not pad short frames to the Ethernet minimum
    /// of 60 bytes: drivers do.
    #[allow(clippy::len_without_is_empty, reason = "no packet is empty")]
    pub const fn len(&self) -> usize {
        let network = match &self.network {
            NetworkPart::Arp(_) => arp::LEN,
            NetworkPart::V4(_, upper) => ipv4::MIN_LEN + upper.header_len(),
            NetworkPart::V6(_, upper) => ipv6::LEN + upper.header_len(),
            NetworkPart::Other(_) => 0,
        };
        self.link.len() + network + self.payload.len()
    }

    /// Writes the frame to the front of `buffer` and returns its length.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when `buffer` is too short; [`WireError::Malformed`] for a field
    /// outside its range and for a payload that is too long for its length field.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, WireError> {
        let (needed, have) = (self.len(), buffer.len());
        let frame = buffer.get_mut(..needed).ok_or(WireError::Truncated { needed, have })?;
        let payload = frame.len() - self.payload.len();
        rest(frame, payload).copy_from_slice(self.payload);
        let ethertype = match &self.network {
            NetworkPart::Arp(_) => EtherType::ARP,
            NetworkPart::V4(..) => EtherType::IPV4,
            NetworkPart::V6(..) => EtherType::IPV6,
            NetworkPart::Other(ethertype) => *ethertype,
        };
        self.link.emit(ethertype, frame)?;
        let packet = rest(frame, self.link.len());
        match &self.network {
            NetworkPart::Arp(message) => message.emit(packet).map(drop)?,
            NetworkPart::Other(_) => {}
            NetworkPart::V4(header, upper) => {
                let transport = upper.len(self.payload, u16::MAX - ipv4::MIN_LEN as u16)?;
                let (protocol, payload_len) = (upper.protocol(), transport);
                let header = Ipv4 { protocol, payload_len, ..*header };
                let at = header.emit(packet)?;
                let (source, destination) = (header.source, header.destination);
                let pseudo = pseudo_v4(source, destination, protocol, transport.into());
                upper.emit(rest(packet, at), pseudo)?;
            }
            NetworkPart::V6(header, upper) => {
                let transport = upper.len(self.payload, u16::MAX)?;
                let (next_header, payload_len) = (upper.protocol(), transport);
                let header = Ipv6 { next_header, payload_len, ..*header };
                let at = header.emit(packet)?;
                let (source, destination) = (header.source, header.destination);
                let pseudo = pseudo_v6(source, destination, next_header, transport.into());
                upper.emit(rest(packet, at), pseudo)?;
            }
        }
        Ok(needed)
    }
}

impl UpperPart<'_> {
    const fn protocol(&self) -> Protocol {
        match self {
            Self::Udp { .. } => Protocol::UDP,
            Self::Tcp(_) => Protocol::TCP,
            Self::Icmpv4(_) => Protocol::ICMP,
            Self::Icmpv6(_) | Self::Neighbor(_) => Protocol::ICMPV6,
            Self::Other(protocol) => *protocol,
        }
    }

    const fn header_len(&self) -> usize {
        match self {
            Self::Udp { .. } => udp::LEN,
            Self::Tcp(header) => header.header_len(),
            Self::Icmpv4(_) => icmpv4::LEN,
            Self::Icmpv6(_) => icmpv6::LEN,
            Self::Neighbor(message) => message.header_len(),
            Self::Other(_) => 0,
        }
    }

    /// The length including `payload`, at most `longest`.
    fn len(&self, payload: &[u8], longest: u16) -> Result<u16, WireError> {
        let len = u16::try_from(self.header_len() + payload.len()).ok();
        len.filter(|len| *len <= longest).ok_or(WireError::Malformed("IP packet above 65535 bytes"))
    }

    /// Writes the header to the front of `packet`, which already contains the payload.
    fn emit(&self, packet: &mut [u8], pseudo: Sum) -> Result<(), WireError> {
        match self {
            Self::Udp { source, destination } => {
                let header = Udp {
                    source_port: *source,
                    destination_port: *destination,
                    // An IP payload is at most 65535 bytes long, so the cast keeps its value.
                    payload_len: packet.len().saturating_sub(udp::LEN) as u16,
                    checksum: 0,
                };
                header.emit(packet)?;
                udp::fill_checksum(packet, pseudo)
            }
            Self::Tcp(header) => {
                header.emit(packet)?;
                tcp::fill_checksum(packet, pseudo)
            }
            Self::Icmpv4(message) => message.emit(packet).map(drop),
            Self::Icmpv6(message) => message.emit(packet, pseudo).map(drop),
            Self::Neighbor(message) => message.emit(packet, pseudo).map(drop),
            Self::Other(_) => Ok(()),
        }
    }
}

/// The bytes after the first `at` bytes.
fn rest(bytes: &mut [u8], at: usize) -> &mut [u8] {
    bytes.get_mut(at..).unwrap_or_default()
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
