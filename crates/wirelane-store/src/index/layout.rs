//! Where the type of a packet stands, and where its network header starts.

/// The types of VLAN tags, as libpcap knows them.
pub const TAGS: [u16; 3] = [0x8100, 0x88A8, 0x9100];

/// Where programs for a link type look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Where the 16 bits of the type stand; `None` if the version of IP, the first four bits of the
    /// packet, is the type.
    pub ether_type: Option<usize>,
    /// Where the network header starts.
    pub network: usize,
    /// Whether VLAN tags may stand before the type.
    pub tags: bool,
}

impl Layout {
    /// How many VLAN tags are passed.
    pub const MAX_TAGS: usize = 2;

    /// The layout of packets of this link type; `None` if their packets have no keys.
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
