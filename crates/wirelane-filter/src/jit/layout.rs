//! The layout of packets for machine code.

use crate::packet::{Metadata, Packet, VISIBLE};

/// Offsets of the fields in records that describe packets, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// A pointer to the first byte of the packet.
    pub data: u16,
    /// The number of readable bytes at that pointer: a `u32`.
    pub length: u16,
    /// The number of bytes that the packet had on the wire: a `u32`.
    pub original_length: u16,
}

/// Describes a single packet to machine code. `len` bytes at `data` must be readable while the code
/// runs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Context {
    /// First byte of the packet.
    pub(super) data: *const u8,
    /// Captured bytes, at most 2³¹ − 1.
    pub(super) len: u32,
    /// Bytes on the wire.
    pub(super) wire_len: u32,
    /// [`Metadata::queue`].
    pub(super) queue: u32,
    /// [`Metadata::packet_type`].
    pub(super) packet_type: u32,
    /// [`Metadata::interface_index`].
    pub(super) interface_index: u32,
}

impl Context {
    /// Describes `packet`. The context does not keep the bytes alive.
    pub(super) fn new(packet: &Packet<'_>) -> Self {
        let Metadata { queue, packet_type, interface_index } = packet.metadata;
        let len = packet.data.len().min(VISIBLE as usize) as u32;
        let (data, wire_len) = (packet.data.as_ptr(), packet.wire_len);
        Self { data, len, wire_len, queue, packet_type, interface_index }
    }
}
