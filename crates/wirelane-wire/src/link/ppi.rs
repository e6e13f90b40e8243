//! Per-Packet Information (PPI Packet Header format, version 1.0.10, CACE Technologies): radio
//! metadata before a frame of any link type.

pub(super) const LINK_TYPE: u16 = 192;

/// Version, flags, the length including all fields, and a link type.
const LEN: usize = 8;

/// The link type and the offset of the frame.
pub(super) fn inside(data: &[u8]) -> Option<(u32, usize)> {
    let &[_, _, a, b, c, d, e, f] = data.first_chunk::<LEN>()?;
    let len = usize::from(u16::from_le_bytes([a, b]));
    (len >= LEN).then_some((u32::from_le_bytes([c, d, e, f]), len))
}
