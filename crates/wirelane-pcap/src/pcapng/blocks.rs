//! The constants of the format.

/// Largest packet that is written or that a pcap file may claim, in bytes: what Wireshark accepts. Longer packets are
/// cut here and keep their original length.
pub const MAX_PACKET: usize = 256 * 1024;
/// Largest block that the decoder accepts, in bytes: far more than any packet needs, little enough to hold in memory.
pub const MAX_BLOCK: usize = 16 * 1024 * 1024;
/// Most interfaces the decoder keeps, over all sections.
pub const MAX_INTERFACES: usize = 65_536;

pub(crate) const SECTION_HEADER: u32 = 0x0A0D_0D0A;
pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
pub(super) const OBSOLETE_PACKET: u32 = 2;
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const INTERFACE_STATISTICS: u32 = 5;
pub(super) const ENHANCED_PACKET: u32 = 6;
pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;

/// Block type, two lengths: every block has them.
pub(super) const BLOCK_OVERHEAD: usize = 12;
/// An enhanced packet block up to its data.
pub(super) const PACKET_HEADER: usize = 28;

pub(super) const OPT_END: u16 = 0;
pub(super) const OPT_COMMENT: u16 = 1;
pub(super) const SHB_HARDWARE: u16 = 2;
pub(super) const SHB_OS: u16 = 3;
pub(super) const SHB_APPLICATION: u16 = 4;
pub(super) const IF_NAME: u16 = 2;
pub(super) const IF_DESCRIPTION: u16 = 3;
pub(super) const IF_SPEED: u16 = 8;
pub(super) const IF_TSRESOL: u16 = 9;
pub(super) const IF_FILTER: u16 = 11;
pub(super) const IF_OS: u16 = 12;
pub(super) const IF_FCSLEN: u16 = 13;
pub(super) const IF_TSOFFSET: u16 = 14;
pub(super) const IF_HARDWARE: u16 = 15;
pub(super) const EPB_FLAGS: u16 = 2;
pub(super) const ISB_START: u16 = 2;
pub(super) const ISB_END: u16 = 3;
pub(super) const ISB_RECEIVED: u16 = 4;
pub(super) const ISB_DROPPED: u16 = 5;
pub(super) const ISB_FILTER_ACCEPTED: u16 = 6;
pub(super) const ISB_OS_DROPPED: u16 = 7;
pub(super) const ISB_DELIVERED: u16 = 8;
