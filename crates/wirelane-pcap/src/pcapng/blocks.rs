//! The constants of the format.

/// Largest packet that is written, or that a pcap file may state, in bytes: Wireshark's limit.
/// Longer packets are truncated and keep their original length.
pub const MAX_PACKET: usize = 256 * 1024;
/// Largest block that the decoder accepts, in bytes: more than any packet needs, and small enough
/// for memory.
pub const MAX_BLOCK: usize = 16 * 1024 * 1024;
/// Most interfaces the decoder keeps, over all sections.
pub const MAX_INTERFACES: usize = 65_536;
/// Most bytes of options of interfaces and sections that the decoder keeps, over all of them.
pub(super) const MAX_OPTIONS: usize = 16 * 1024 * 1024;
/// Most bytes of blocks before the first packet that the decoder keeps, in addition to one block.
pub(super) const MAX_EARLY: usize = 32 * 1024 * 1024;

pub(crate) const SECTION_HEADER: u32 = 0x0A0D_0D0A;
pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
pub(super) const OBSOLETE_PACKET: u32 = 2;
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const NAME_RESOLUTION: u32 = 4;
pub(super) const INTERFACE_STATISTICS: u32 = 5;
pub(super) const ENHANCED_PACKET: u32 = 6;
pub(super) const SYSTEMD_JOURNAL: u32 = 9;
pub(super) const DECRYPTION_SECRETS: u32 = 10;
/// A custom block that must not be copied into a changed file.
pub(super) const CUSTOM_PRIVATE: u32 = 0x4000_0BAD;
pub(super) const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;

/// Block type and two lengths, which every block has.
pub(super) const BLOCK_OVERHEAD: usize = 12;
/// Bytes of an enhanced packet block before its data.
pub(super) const PACKET_HEADER: usize = 28;

pub(super) const OPT_END: u16 = 0;
pub(super) const OPT_COMMENT: u16 = 1;
pub(super) const CUSTOM_TEXT: u16 = 2988;
pub(super) const CUSTOM_BINARY: u16 = 2989;
/// Custom options that must not be copied into a changed file.
pub(super) const CUSTOM_PRIVATE_TEXT: u16 = 19372;
pub(super) const CUSTOM_PRIVATE_BINARY: u16 = 19373;
pub(super) const SHB_HARDWARE: u16 = 2;
pub(super) const SHB_OS: u16 = 3;
pub(super) const SHB_APPLICATION: u16 = 4;
pub(super) const IF_NAME: u16 = 2;
pub(super) const IF_DESCRIPTION: u16 = 3;
pub(super) const IF_SPEED: u16 = 8;
pub(super) const IF_TSRESOL: u16 = 9;
pub(super) const IF_TZONE: u16 = 10;
pub(super) const IF_FILTER: u16 = 11;
pub(super) const IF_OS: u16 = 12;
pub(super) const IF_FCSLEN: u16 = 13;
pub(super) const IF_TSOFFSET: u16 = 14;
pub(super) const IF_HARDWARE: u16 = 15;
pub(super) const IF_TXSPEED: u16 = 16;
pub(super) const IF_RXSPEED: u16 = 17;
pub(super) const EPB_FLAGS: u16 = 2;
pub(super) const EPB_DROPCOUNT: u16 = 4;
pub(super) const EPB_PACKETID: u16 = 5;
pub(super) const EPB_QUEUE: u16 = 6;
pub(super) const EPB_VERDICT: u16 = 7;
pub(super) const EPB_PROCESS: u16 = 8;
pub(super) const ISB_START: u16 = 2;
pub(super) const ISB_END: u16 = 3;
pub(super) const ISB_RECEIVED: u16 = 4;
pub(super) const ISB_DROPPED: u16 = 5;
pub(super) const ISB_FILTER_ACCEPTED: u16 = 6;
pub(super) const ISB_OS_DROPPED: u16 = 7;
pub(super) const ISB_DELIVERED: u16 = 8;
