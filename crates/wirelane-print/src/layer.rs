//! The interface between the layers of a packet. Layers do not call each other, so tunnels may be
//! as deep as a packet is long.

use std::net::{Ipv4Addr, Ipv6Addr};

use wirelane_wire::Protocol;
use wirelane_wire::checksum::{self, Sum};

use crate::bytes::{Bytes, Cut};
use crate::line::Line;

/// The next layer of a packet.
pub(crate) enum Next<'a> {
    /// No layer, or a layer that is not printed.
    End,
    /// An Ethernet frame.
    Ethernet(Bytes<'a>),
    /// The payload of this EtherType.
    Typed(u16, Bytes<'a>),
    /// A logical link control header.
    Llc(Bytes<'a>),
    /// IPv4 or IPv6, by its first bits.
    Ip(Bytes<'a>),
    /// The payload of an IP packet.
    Upper(Upper<'a>),
}

/// The payload of an IP packet.
#[derive(Clone, Copy)]
pub(crate) struct Upper<'a> {
    pub(crate) protocol: u8,
    pub(crate) ends: Ends,
    /// Whether the addresses are printed.
    pub(crate) named: bool,
    /// Whether this is the first of several fragments.
    pub(crate) fragment: bool,
    pub(crate) bytes: Bytes<'a>,
}

/// The addresses of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ends {
    V4 { source: [u8; 4], destination: [u8; 4] },
    V6 { source: [u8; 16], destination: [u8; 16] },
}

/// The result of a layer: the next layer, or an early end of its bytes.
pub(crate) type Step<'a> = Result<Next<'a>, Cut>;

impl Ends {
    /// The sum over the pseudo-header and the payload of an IP packet.
    pub(crate) fn sum(&self, protocol: Protocol, bytes: &[u8]) -> Result<Sum, Cut> {
        let len = u32::try_from(bytes.len()).map_err(|_| Cut)?;
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

    pub(crate) fn source<'l, 't>(&self, line: &'l mut Line<'t>) -> &'l mut Line<'t> {
        match *self {
            Self::V4 { source, .. } => line.ipv4(source),
            Self::V6 { source, .. } => line.ipv6(source),
        }
    }

    pub(crate) fn destination<'l, 't>(&self, line: &'l mut Line<'t>) -> &'l mut Line<'t> {
        match *self {
            Self::V4 { destination, .. } => line.ipv4(destination),
            Self::V6 { destination, .. } => line.ipv6(destination),
        }
    }

    /// Adds `source > destination: `.
    pub(crate) fn print(&self, line: &mut Line<'_>) {
        self.source(line).put(" > ");
        self.destination(line).put(": ");
    }

    pub(crate) fn is_v4(&self) -> bool {
        matches!(self, Self::V4 { .. })
    }
}

impl Upper<'_> {
    /// Adds `source.port > destination.port: `.
    pub(crate) fn print_ports(&self, line: &mut Line<'_>) -> Result<(u16, u16), Cut> {
        let (Ok(source), Ok(destination)) = (self.bytes.be16(0), self.bytes.be16(2)) else {
            if !self.named {
                self.ends.print(line);
            }
            return Err(Cut);
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
