//! Finds the flow of a frame.

use core::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::error::WireError;
use crate::ethernet::{EtherType, Ethernet, EthernetView};
use crate::field::{be16, split};
use crate::ipv4::Ipv4View;
use crate::ipv6::Ipv6View;
use crate::link::MAX_TAGS;
use crate::protocol::Protocol;
use crate::vlan::{Vlan, VlanView};
use crate::{ethernet, vlan};

/// The fields that all packets of one conversation in one direction share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Both addresses.
    pub addresses: Addresses,
    /// The upper layer behind any extension headers.
    pub protocol: Protocol,
    /// Both ports, of protocols that have them. `None` for fragments: only the first fragment of a
    /// packet contains the ports, and all fragments must have the same flow.
    pub ports: Option<Ports>,
}

impl FlowKey {
    /// Reads the flow of an Ethernet frame, through VLAN tags and IPv6 extension headers; `None`
    /// for other protocols than IP. A payload that a snap length cut is no error.
    ///
    /// # Errors
    /// As [`Layers::parse`]; [`WireError::Truncated`] also when the frame ends before the ports.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<Option<Self>, WireError> {
        Layers::parse(frame)?.flow()
    }

    /// The key of the other direction.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let addresses = match self.addresses {
            Addresses::V4 { source, destination } => {
                Addresses::V4 { source: destination, destination: source }
            }
            Addresses::V6 { source, destination } => {
                Addresses::V6 { source: destination, destination: source }
            }
        };
        let ports = self.ports.map(|it| Ports { source: it.destination, destination: it.source });
        Self { addresses, ports, ..*self }
    }
}

impl fmt::Display for FlowKey {
    /// Writes `192.0.2.1:4000 > 192.0.2.2:53 udp`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (self.addresses.source(), self.addresses.destination());
        match self.ports {
            Some(ports) => {
                let source = core::net::SocketAddr::new(source, ports.source);
                let destination = core::net::SocketAddr::new(destination, ports.destination);
                write!(f, "{source} > {destination} {}", self.protocol)
            }
            None => write!(f, "{source} > {destination} {}", self.protocol),
        }
    }
}

/// The addresses of a packet, both of the same family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// The address of the sender.
        source: Ipv4Addr,
        /// The address of the receiver.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// The address of the sender.
        source: Ipv6Addr,
        /// The address of the receiver.
        destination: Ipv6Addr,
    },
}

impl Addresses {
    /// The address of the sender.
    #[inline]
    pub fn source(&self) -> IpAddr {
        match *self {
            Self::V4 { source, .. } => source.into(),
            Self::V6 { source, .. } => source.into(),
        }
    }

    /// The address of the receiver.
    #[inline]
    pub fn destination(&self) -> IpAddr {
        match *self {
            Self::V4 { destination, .. } => destination.into(),
            Self::V6 { destination, .. } => destination.into(),
        }
    }
}

/// The ports of a transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    /// The port of the sender.
    pub source: u16,
    /// The port of the receiver.
    pub destination: u16,
}

/// The layers of an Ethernet frame.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// The Ethernet header.
    pub ethernet: Ethernet,
    /// The outermost tag.
    pub outer_vlan: Option<Vlan>,
    /// The innermost tag, if there are several.
    pub inner_vlan: Option<Vlan>,
    /// The EtherType after header and tags.
    pub ethertype: EtherType,
    /// Where the network layer begins in the frame.
    pub network_offset: usize,
    /// The network layer.
    pub network: Network<'a>,
    /// The payload of an IP packet; `None` for a frame that is not IP.
    pub transport: Option<Transport<'a>>,
}

/// The network layer of a frame.
#[derive(Clone, Copy, Debug)]
pub enum Network<'a> {
    /// An IPv4 packet.
    V4(Ipv4View<'a>),
    /// An IPv6 packet.
    V6(Ipv6View<'a>),
    /// The bytes of any other protocol.
    Other(&'a [u8]),
}

/// The payload of an IP packet.
#[derive(Clone, Copy, Debug)]
pub struct Transport<'a> {
    /// The upper layer.
    pub protocol: Protocol,
    /// Its offset in the frame.
    pub offset: usize,
    /// The captured part of its bytes.
    pub bytes: &'a [u8],
    /// Whether this is a fragment; only the first fragment begins with the transport header.
    pub is_fragment: bool,
}

impl<'a> Layers<'a> {
    /// Finds the layers of an Ethernet frame. A payload that a snap length cut is no error.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the frame ends within the Ethernet header, a tag, the IP
    /// header or an extension header; [`WireError::Malformed`] when one of them has a forbidden
    /// value, and for more than eight tags.
    pub fn parse(frame: &'a [u8]) -> Result<Self, WireError> {
        let view = EthernetView::new(frame)?;
        let ethernet = Ethernet::parse(&view);
        let mut ethertype = ethernet.ethertype;
        let mut bytes = view.payload();
        let mut network_offset = ethernet::LEN;
        let (mut outer_vlan, mut inner_vlan) = (None, None);
        for _ in 0..MAX_TAGS {
            if !ethertype.is_vlan() {
                break;
            }
            let tag = VlanView::new(bytes)?;
            let slot = if outer_vlan.is_none() { &mut outer_vlan } else { &mut inner_vlan };
            *slot = Some(Vlan::parse(&tag));
            ethertype = tag.ethertype();
            bytes = tag.payload();
            network_offset += vlan::LEN;
        }
        if ethertype.is_vlan() {
            return Err(WireError::Malformed("more than eight VLAN tags"));
        }
        let (network, transport) = Self::network(ethertype, bytes, network_offset)?;
        Ok(Self { ethernet, outer_vlan, inner_vlan, ethertype, network_offset, network, transport })
    }

    /// The flow of the frame; `None` for other protocols than IP.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the frame ends before the ports.
    #[inline]
    pub fn flow(&self) -> Result<Option<FlowKey>, WireError> {
        let Some(addresses) = self.network.addresses() else { return Ok(None) };
        let Some(transport) = self.transport else { return Ok(None) };
        let protocol = transport.protocol;
        Ok(Some(FlowKey { addresses, protocol, ports: transport.ports()? }))
    }

    /// The network layer that follows a link header, and its payload; `at` is its offset in the
    /// frame.
    ///
    /// # Errors
    /// As [`Layers::parse`], from the IP header on.
    #[inline]
    pub fn network(
        ethertype: EtherType,
        bytes: &'a [u8],
        at: usize,
    ) -> Result<(Network<'a>, Option<Transport<'a>>), WireError> {
        match ethertype {
            EtherType::IPV4 => {
                let view = Ipv4View::new_snapped(bytes)?;
                let transport = Transport {
                    protocol: view.protocol(),
                    offset: at + view.header_len(),
                    bytes: view.payload(),
                    is_fragment: view.is_fragment(),
                };
                Ok((Network::V4(view), Some(transport)))
            }
            EtherType::IPV6 => {
                let view = Ipv6View::new_snapped(bytes)?;
                let upper = view.upper()?;
                let transport = Transport {
                    protocol: upper.protocol,
                    offset: at + crate::ipv6::LEN + upper.offset,
                    bytes: upper.payload,
                    is_fragment: upper.is_fragment(),
                };
                Ok((Network::V6(view), Some(transport)))
            }
            _ => Ok((Network::Other(bytes), None)),
        }
    }
}

impl Network<'_> {
    /// The addresses of an IP packet.
    #[inline]
    pub fn addresses(&self) -> Option<Addresses> {
        match self {
            Self::V4(view) => {
                let (source, destination) = (view.source(), view.destination());
                Some(Addresses::V4 { source, destination })
            }
            Self::V6(view) => {
                let (source, destination) = (view.source(), view.destination());
                Some(Addresses::V6 { source, destination })
            }
            Self::Other(_) => None,
        }
    }
}

impl Transport<'_> {
    /// The ports; `None` for a protocol without ports, and for fragments.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the bytes end before the ports.
    #[inline]
    pub fn ports(&self) -> Result<Option<Ports>, WireError> {
        if self.is_fragment || !self.protocol.has_ports() {
            return Ok(None);
        }
        let (ports, _) = split::<4>(self.bytes)?;
        Ok(Some(Ports { source: be16::<0, 4>(ports), destination: be16::<2, 4>(ports) }))
    }
}

#[cfg(test)]
#[path = "flow_tests.rs"]
mod tests;
