//! A packet as input of a filter.

/// A packet as input of a filter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet<'a> {
    /// The captured bytes. Programs see at most the first 2³¹ − 1 of them.
    pub data: &'a [u8],
    /// Bytes on the wire, which `len`, `greater` and `less` refer to.
    pub wire_len: u32,
    /// The packet's metadata.
    pub metadata: Metadata,
}

/// A packet's metadata, which ancillary loads read.
///
/// VLAN tags are missing: on every port, Wirelane keeps them in the bytes of the packet, so the
/// ancillary fields of VLAN tags read as 0, "no tag".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The packet's queue. The kernel's socket filter has `skb->queue_mapping` instead, which most
    /// drivers shift by one.
    pub queue: u32,
    /// [`Metadata::OUTGOING`] if the host sent it, otherwise 0.
    pub packet_type: u32,
    /// Index of the interface; 0 if there is none.
    pub interface_index: u32,
}

impl Metadata {
    /// `PACKET_OUTGOING` of `linux/if_packet.h`.
    pub const OUTGOING: u32 = 4;
}

/// The number of bytes of a packet that programs can see.
pub(crate) const VISIBLE: u32 = i32::MAX as u32;

/// Smaller values in an Ethernet header are lengths (`ETH_P_802_3_MIN`).
pub(crate) const MIN_ETHERTYPE: u32 = 0x600;
