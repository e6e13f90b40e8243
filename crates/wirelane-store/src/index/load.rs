//! Loads of numbers, with the semantics of filter programs.

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86DD;
/// The next header of a fragment.
pub(super) const FRAGMENT: u8 = 44;

/// Whether libpcap reads two ports after the IP header.
#[inline]
pub(super) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 132)
}

/// The offset of a fragment of IPv4, in units of 8 bytes; 0 for the first, and for a whole packet.
#[inline]
pub(super) fn fragment_offset(data: &[u8]) -> u16 {
    short(data, 6).map_or(0, |word| word & 0x1FFF)
}

/// Length of the IPv4 header, from its length field.
#[inline]
pub(super) fn header_len(data: &[u8]) -> usize {
    data.first().map_or(0, |byte| usize::from(byte & 0x0F) * 4)
}

#[inline]
pub(super) fn short(data: &[u8], at: usize) -> Option<u16> {
    data.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

#[inline]
pub(super) fn word(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}
