//! Where machine code finds a packet in a record of its caller.

/// Offsets in the records that describe packets, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// A pointer to the first byte.
    pub data: u16,
    /// How many bytes can be read there: a `u32`.
    pub length: u16,
    /// How many bytes the packet had on the wire: a `u32`.
    pub original_length: u16,
}
