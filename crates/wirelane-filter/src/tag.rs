//! Places of VLAN tags.

/// The place of a packet's outer VLAN tag, and the place that the program expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagPlace {
    /// In the place that the program expects.
    AsMeant,
    /// Beside the packet; the program expects it in the bytes.
    TakenOut,
    /// In the bytes; the program expects it beside the packet.
    InPlace,
    /// No tag; the program expects it beside the packet.
    Absent,
}

/// The offset of a tag in packets of a link type that has tags: behind the addresses of Ethernet,
/// and before the protocol of cooked packets (`SLL_HDR_LEN - 2`).
pub(crate) fn position(link_type: u16) -> Option<u32> {
    match link_type {
        ETHERNET => Some(12),
        LINUX_SLL => Some(14),
        _ => None,
    }
}

/// `LINKTYPE_ETHERNET`.
const ETHERNET: u16 = 1;

/// `LINKTYPE_LINUX_SLL`.
const LINUX_SLL: u16 = 113;

/// The types that the kernel treats as a tag (`eth_type_vlan`).
pub(crate) const TPIDS: [u32; 2] = [0x8100, 0x88a8];

/// Bytes of a tag.
pub(crate) const TAG_LEN: u32 = 4;
