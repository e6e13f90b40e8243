//! Where VLAN tags are.

/// Where the outer VLAN tag of a packet is, and where the program has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// Where the program has it.
    AsMeant,
    /// Beside the packet, and the program has it in the bytes.
    TakenOut,
    /// In the bytes, and the program has it beside the packet.
    InPlace,
    /// Nowhere, and the program has it beside the packet.
    Absent,
}

/// Where a tag begins in packets of a link type, if it has any: behind the addresses of Ethernet,
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
