//! The interface between the layers of a packet. Layers do not call each other, so tunnels may be
//! as deep as a packet is long.

use std::net::{Ipv4Addr, Ipv6Addr};

use wirelane_wire::Protocol;
use wirelane_wire::checksum::{self, Sum};

use crate::bytes::{CapturedBytes, Truncated};
use crate::line::TextLine;

/// The next layer of a packet.
pub(crate) enum NextLayer<'a> {
    /// No layer, or a layer that is not printed.
    End,
    /// An Ethernet frame.
    Ethernet(CapturedBytes<'a>),
    /// The payload of this EtherType.
    Typed(u16, CapturedBytes<'a>),
    /// A logical link control header.
    Llc(CapturedBytes<'a>),
    /// IPv4 or IPv6, by its first bits.
    Ip(CapturedBytes<'a>),
    /// The payload of an IP packet.
    Upper(IpPayload<'a>),
}

/// The payload of an IP packet.
#[derive(Clone, Copy)]
pub(crate) struct IpPayload<'a> {
    pub(crate) protocol: u8,
    pub(crate) ends: IpAddresses,
    /// Whether the addresses are printed.
    pub(crate) named: bool,
    /// Whether this is the first of several fragments.
    pub(crate) fragment: bool,
    pub(crate) bytes: CapturedBytes<'a>,
}

/// The addresses of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum IpAddresses {
    V4 { source: [u8; 4], destination: [u8; 4] },
    V6 { source: [u8; 16], destination: [u8; 16] },
}

/// The result of a layer: the next layer, or an early end of its bytes.
pub(crate) type Step<'a> = Result<NextLayer<'a>, Truncated>;

impl IpAddresses {
    /// The sum over the pseudo-header and the payload of an IP packet.
    pub(crate) fn sum(&self, protocol: Protocol, bytes: &[u8]) -> Result<Sum, Truncated> {
        let len = u32::try_from(bytes.len()).map_err(|_| Truncated)?;
        let pseudo = match *self {
            Self::V4 { source, destination } => checksum::pseudo_v4(
                Ipv4Addr::from(source),
                Ipv4Addr::from(destination),
                protocol,
                len,
            ),
            Self::V6 { source, destination } => checksum::pseudo_v6(
                Ipv6Addr::from(source),
                Ipv6Addr::from(destination),
                protocol,
                len,
            ),
        };
        Ok(pseudo.plus(checksum::sum(bytes)))
    }

    pub(crate) fn source<'l, 't>(&self, line: &'l mut TextLine<'t>) -> &'l mut TextLine<'t> {
        match *self {
            Self::V4 { source, .. } => line.ipv4(source),
            Self::V6 { source, .. } => line.ipv6(source),
        }
    }

    pub(crate) fn destination<'l, 't>(&self, line: &'l mut TextLine<'t>) -> &'l mut TextLine<'t> {
        match *self {
            Self::V4 { destination, .. } => line.ipv4(destination),
            Self::V6 { destination, .. } => line.ipv6(destination),
        }
    }

    /// Adds `source > destination: `.
    pub(crate) fn print(&self, line: &mut TextLine<'_>) {
        self.source(line).put(" > ");
        self.destination(line).put(": ");
    }

    pub(crate) fn is_v4(&self) -> bool {
        matches!(self, Self::V4 { .. })
    }
}

impl IpPayload<'_> {
    /// Adds `source.port > destination.port: `.
    pub(crate) fn print_ports(&self, line: &mut TextLine<'_>) -> Result<(u16, u16), Truncated> {
        let (Ok(source), Ok(destination)) = (self.bytes.be16(0), self.bytes.be16(2)) else {
            if !self.named {
                self.ends.print(line);
            }
            return Err(Truncated);
        };
        if self.named {
            line.number(source).put(" > ").number(destination).put(": ");
        } else {
            self.ends.source(line).put(".").number(source).put(" > ");
            self.ends.destination(line).put(".").number(destination).put(": ");
        }
        Ok((source, destination))
    }
}
