//! An IP packet of either version: its header fields and its payload.

use crate::error::WireError;
use crate::ethernet::EtherType;
use crate::flow::{Addresses, Transport};
use crate::ipv4::Ipv4View;
use crate::ipv6::Ipv6View;
use crate::protocol::Protocol;
use crate::tunnel::Tunnel;
use crate::{gre, ipv6, tcp};

/// An IP packet.
#[derive(Clone, Copy, Debug)]
pub struct Internet<'a> {
    /// Both addresses.
    pub addresses: Addresses,
    /// Its payload, behind extension headers; the offset counts from the IP header.
    pub transport: Transport<'a>,
    /// Offset of a fragment in its packet, in bytes; 0 for the first fragment, and for whole
    /// packets.
    pub fragment_offset: u16,
    /// Its length in bytes, as stated in its header.
    pub octets: u32,
    /// The differentiated-services code point, 0 to 63.
    pub dscp: u8,
    /// The congestion-notification bits, 0 to 3.
    pub ecn: u8,
    /// The TTL or hop limit.
    pub ttl: u8,
}

impl<'a> Internet<'a> {
    /// Reads the bytes after a link header; `None` for other protocols than IP. `carried` is the
    /// number of bytes on the link, for lengths that no header can state. A payload that a snap
    /// length cut is no error.
    ///
    /// # Errors
    /// [`WireError::Truncated`] when the bytes end within the IP header or an extension header;
    /// [`WireError::Malformed`] when one of them has a forbidden value.
    #[inline]
    pub fn parse(
        ethertype: EtherType,
        bytes: &'a [u8],
        carried: u32,
    ) -> Result<Option<Self>, WireError> {
        Ok(match ethertype {
            EtherType::IPV4 => Some(Self::v4(&Ipv4View::new_snapped(bytes)?, carried)),
            EtherType::IPV6 => Some(Self::v6(&Ipv6View::new_snapped(bytes)?, carried)?),
            _ => None,
        })
    }

    #[inline]
    fn v4(view: &Ipv4View<'a>, carried: u32) -> Self {
        let (source, destination) = (view.source(), view.destination());
        Self {
            addresses: Addresses::V4 { source, destination },
            transport: Transport {
                protocol: view.protocol(),
                offset: view.header_len(),
                bytes: view.payload(),
                is_fragment: view.is_fragment(),
            },
            fragment_offset: view.fragment_offset(),
            octets: match view.total_len() {
                0 => carried,
                stated => stated.into(),
            },
            dscp: view.dscp(),
            ecn: view.ecn(),
            ttl: view.ttl(),
        }
    }

    #[inline]
    fn v6(view: &Ipv6View<'a>, carried: u32) -> Result<Self, WireError> {
        let (source, destination) = (view.source(), view.destination());
        let upper = view.upper()?;
        Ok(Self {
            addresses: Addresses::V6 { source, destination },
            transport: Transport {
                protocol: upper.protocol,
                offset: ipv6::LEN + upper.offset,
                bytes: upper.payload,
                is_fragment: upper.is_fragment(),
            },
            fragment_offset: upper.fragment.map_or(0, |fragment| fragment.offset),
            octets: match view.payload_len() {
                // RFC 2675, and BIG TCP.
                0 if carried > u16::MAX.into() => carried,
                stated => u32::from(stated) + ipv6::LEN as u32,
            },
            dscp: view.dscp(),
            ecn: view.ecn(),
            ttl: view.hop_limit(),
        })
    }

    /// Whether the packet contains the transport header: of fragments, only the first does.
    #[inline]
    pub fn has_transport_header(&self) -> bool {
        self.fragment_offset == 0
    }

    /// Bytes above the transport header, by the lengths in the headers; for a fragment, bytes above
    /// IP.
    #[inline]
    pub fn payload_len(&self) -> u32 {
        let Self { transport, .. } = self;
        let bytes = self.octets.saturating_sub(transport.offset as u32);
        if transport.is_fragment {
            return bytes;
        }
        bytes.saturating_sub(match transport.protocol {
            Protocol::TCP => {
                let stated = transport.bytes.get(12).map(|byte| u32::from(byte >> 4) * 4);
                stated.unwrap_or(tcp::MIN_LEN as u32)
            }
            Protocol::UDP | Protocol::UDP_LITE | Protocol::ICMP | Protocol::ICMPV6 => 8,
            Protocol::SCTP | Protocol::DCCP => 12,
            Protocol::GRE => gre::MIN_LEN as u32,
            _ => 0,
        })
    }

    /// The inner packet, if this is a tunnel packet with a whole inner IP header.
    #[inline]
    pub fn inside(&self) -> Option<(Self, Tunnel)> {
        let Self { transport, octets, .. } = self;
        if transport.is_fragment {
            return None;
        }
        let tunnel = Tunnel::of(transport.protocol, transport.bytes)?;
        let left = octets.saturating_sub((transport.offset + tunnel.at) as u32);
        let bytes = transport.bytes.get(tunnel.at..)?;
        let inside = Self::parse(tunnel.ethertype, bytes, left).ok()??;
        Some((inside, tunnel))
    }
}

#[cfg(test)]
#[path = "internet_tests.rs"]
mod tests;
