//! Decoded headers of one packet.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{Protocol, TcpFlags};

/// An IP packet with a valid header.
#[derive(Clone, Copy)]
pub(crate) struct Ip<'p> {
    /// The source address; an IPv4 address is in the first four bytes.
    pub(crate) source: [u8; 16],
    pub(crate) destination: [u8; 16],
    /// The sum of the addresses in the pseudo-header; `None` if unknown.
    pub(crate) addresses: Option<Sum>,
    pub(crate) v6: bool,
    pub(crate) protocol: Protocol,
    /// The captured part of the payload.
    pub(crate) payload: &'p [u8],
    /// The length of the payload on the wire.
    pub(crate) wire: usize,
    /// The length of the whole packet.
    pub(crate) length: usize,
    /// The IPv4 identification, if DF is not set. Otherwise it has no meaning.
    pub(crate) id: Option<u16>,
    /// A hash of the VLAN tags and tunnels around the packet.
    pub(crate) context: u64,
}

/// The pending change of a sum by the hardware; `None` if there is none.
pub(crate) type Left = Option<Sum>;

/// The position of a fragment in its packet.
#[derive(Clone, Copy)]
pub(crate) struct Fragment<'p> {
    /// The length of the headers before the fragmented part that count for the limit of 65535: the
    /// IPv4 header, or the IPv6 extension headers.
    pub(crate) before: usize,
    /// The offset of its payload in the packet.
    pub(crate) offset: usize,
    pub(crate) more: bool,
    pub(crate) id: u32,
    /// The IPv4 options.
    pub(crate) options: &'p [u8],
}

/// A TCP segment with a valid header.
#[derive(Clone, Copy)]
pub(crate) struct TcpSegment<'p> {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: TcpFlags,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: &'p [u8],
    /// The payload length.
    pub(crate) len: u32,
}

impl TcpSegment<'_> {
    /// The sequence number after the payload.
    pub(crate) fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.len)
    }
}

/// A UDP datagram with a valid header.
#[derive(Clone, Copy)]
pub(crate) struct Datagram<'p> {
    pub(crate) ports: (u16, u16),
    /// The length including the header.
    pub(crate) length: usize,
    /// The checksum field.
    pub(crate) field: u16,
    /// The captured bytes.
    pub(crate) bytes: &'p [u8],
}

/// One direction of a flow on one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DirectionKey {
    pub(crate) interface: u32,
    /// A hash of the VLAN tags and tunnels around it.
    pub(crate) context: u64,
    pub(crate) source: [u8; 16],
    pub(crate) destination: [u8; 16],
    pub(crate) protocol: u8,
    /// Source and destination port; 0 without ports.
    pub(crate) ports: (u16, u16),
}

impl DirectionKey {
    pub(crate) fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            ports: (self.ports.1, self.ports.0),
            ..*self
        }
    }
}

/// The big-endian field at `at`.
pub(crate) fn be16(header: &[u8], at: usize) -> u16 {
    let bytes = header.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
}
