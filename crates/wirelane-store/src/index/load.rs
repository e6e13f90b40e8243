//! Loads of numbers, as programs do them.

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86DD;
/// The next header of a fragment.
pub(super) const FRAGMENT: u8 = 44;

/// Whether the first four bytes behind the header of IP are two ports, for libpcap.
#[inline]
pub(super) fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 132)
}

/// The offset of a fragment of IPv4, in units of 8 bytes; 0 for the first, and for a whole packet.
#[inline]
pub(super) fn fragment_offset(data: &[u8]) -> u16 {
    short(data, 6).map_or(0, |word| word & 0x1FFF)
}

/// Bytes of the header of IPv4, as it says.
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
