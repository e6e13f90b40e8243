//! pcapng (draft-ietf-opsawg-pcapng): reading from a byte stream or from memory, and encoding into
//! a byte vector.
//!
//! Files are written in the byte order of the machine, as the format intends, with nanosecond
//! timestamps. Every queue and class has a separate interface description block, so that the queue
//! of a packet takes no extra bytes.

mod blocks;
mod counters;
mod decode;
mod encode;
mod memory;
mod metadata;
mod options;
mod time;
mod view;

pub(crate) use blocks::SECTION_HEADER;
pub use blocks::{MAX_BLOCK, MAX_INTERFACES, MAX_PACKET};
pub use decode::{PcapngReader, Step};
pub use encode::{
    interface, packet, packet_into, packet_with_comment, packet_with_options,
    packet_with_options_into, section_header, statistics,
};
pub(crate) use encode::{options_len, whole_blocks};
pub use memory::{BadBlock, Block, Blocks, Content, blocks};
pub use metadata::{MetadataBlock, MetadataKind};
pub use options::options;
pub(crate) use options::{comment, count_options};
