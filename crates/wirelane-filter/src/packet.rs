//! A packet as filters see it.

/// A packet as a filter sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet<'a> {
    /// The bytes present. Programs see no more than the first 2³¹ − 1 of them.
    pub data: &'a [u8],
    /// Bytes on the wire: what `len`, `greater` and `less` mean.
    pub wire_len: u32,
    /// The packet's metadata.
    pub metadata: Metadata,
}

/// A packet's metadata, which ancillary loads read.
///
/// VLAN tags are not here. Wirelane has them in the bytes of the packet on every port, so the
/// ancillary fields of VLAN tags read as 0, "no tag".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The packet's queue. The kernel's socket filter has `skb->queue_mapping` instead, which most
    /// drivers shift by one.
    pub queue: u32,
    /// [`Metadata::OUTGOING`] if the host sent it, otherwise 0.
    pub packet_type: u32,
    /// Index of the interface; 0 when there is none.
    pub interface_index: u32,
}

impl Metadata {
    /// `PACKET_OUTGOING` of `linux/if_packet.h`.
    pub const OUTGOING: u32 = 4;
}

/// Programs see no more bytes of a packet.
pub(crate) const VISIBLE: u32 = i32::MAX as u32;

/// Smaller values in an Ethernet header are lengths (`ETH_P_802_3_MIN`).
pub(crate) const MIN_ETHERTYPE: u32 = 0x600;
