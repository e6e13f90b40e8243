//! The offsets of a packet's type and network header.

/// The types of VLAN tags that libpcap knows.
pub const TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];

/// The offsets that filter programs use for a link type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Offset of the 16 bits of the type; `None` if the first four bits of the packet, the version
    /// of IP, are the type.
    pub ether_type: Option<usize>,
    /// Offset of the network header.
    pub network: usize,
    /// Whether VLAN tags may precede the type.
    pub tags: bool,
}

impl Layout {
    /// The most VLAN tags that are skipped.
    pub const MAX_TAGS: usize = 2;

    /// The layout of packets of this link type; `None` if they have no keys.
    #[inline]
    #[must_use]
    pub fn of(link_type: u16) -> Option<Self> {
        let cooked = |at, network| Self { ether_type: Some(at), network, tags: false };
        match link_type {
            1 => Some(Self { ether_type: Some(12), network: 14, tags: true }),
            101 => Some(Self { ether_type: None, network: 0, tags: false }),
            113 => Some(cooked(14, 16)),
            276 => Some(cooked(0, 20)),
            _ => None,
        }
    }
}
