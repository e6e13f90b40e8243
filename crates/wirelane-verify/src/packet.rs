//! What the headers of one packet say.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{Protocol, TcpFlags};

/// An IP packet whose header made sense.
#[derive(Clone, Copy)]
pub(crate) struct Ip<'p> {
    /// Addresses; those of IPv4 are in the first four bytes.
    pub(crate) source: [u8; 16],
    pub(crate) destination: [u8; 16],
    /// The sum of the addresses as the pseudo-header has them; `None` if that is not known.
    pub(crate) addresses: Option<Sum>,
    pub(crate) v6: bool,
    pub(crate) protocol: Protocol,
    /// What is captured of the payload.
    pub(crate) payload: &'p [u8],
    /// Bytes that the payload has.
    pub(crate) wire: usize,
    /// Bytes of the whole packet.
    pub(crate) length: usize,
    /// Identification of IPv4 where DF is not set, so that it means something.
    pub(crate) id: Option<u16>,
    /// Stands for what is around the packet: VLAN and tunnels.
    pub(crate) context: u64,
}

/// What the hardware would still add to the sum of some bytes; `None` if nothing.
pub(crate) type Left = Option<Sum>;

/// Facts about a fragment.
#[derive(Clone, Copy)]
pub(crate) struct Fragment<'p> {
    /// Bytes before the fragmented part that count for the limit of 65535: the IPv4 header, or the
    /// extension headers of IPv6.
    pub(crate) before: usize,
    /// Where its payload belongs.
    pub(crate) offset: usize,
    pub(crate) more: bool,
    pub(crate) id: u32,
    /// Options of IPv4.
    pub(crate) options: &'p [u8],
}

/// A TCP segment whose header made sense.
#[derive(Clone, Copy)]
pub(crate) struct Segment<'p> {
    pub(crate) sequence: u32,
    pub(crate) acknowledgment: u32,
    pub(crate) flags: TcpFlags,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: &'p [u8],
    /// Bytes of payload.
    pub(crate) len: u32,
}

impl Segment<'_> {
    /// The sequence number behind the payload.
    pub(crate) fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.len)
    }
}

/// A UDP datagram whose header made sense.
#[derive(Clone, Copy)]
pub(crate) struct Datagram<'p> {
    pub(crate) ports: (u16, u16),
    /// Bytes, with its header.
    pub(crate) length: usize,
    /// Its checksum.
    pub(crate) field: u16,
    /// What is captured of it.
    pub(crate) bytes: &'p [u8],
}

/// One direction of a flow, at one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FlowKey {
    pub(crate) interface: u32,
    /// VLAN and tunnels around it.
    pub(crate) context: u64,
    pub(crate) source: [u8; 16],
    pub(crate) destination: [u8; 16],
    pub(crate) protocol: u8,
    /// Of the source and the destination; 0 without ports.
    pub(crate) ports: (u16, u16),
}

impl FlowKey {
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
