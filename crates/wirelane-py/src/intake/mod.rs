//! Sources of packets: the receiving ends of a port, or the search of a store.

pub(crate) mod ends;
pub(crate) mod packet_queue;
pub(crate) mod stored;

use std::sync::Arc;
use std::time::Instant;

use wirelane::{Class, Result};
use wirelane_flow::arrow::Packets;

/// Receives packets, which wait until they become frames or rows.
pub(crate) trait Intake: Send {
    /// Receives about `most` packets, unless some are waiting. True if there are any, false at the
    /// end; `None` if none arrives before `until`.
    fn receive(&mut self, most: usize, until: Instant) -> Option<Result<bool>>;

    /// Whether packets are waiting.
    fn has_some(&self) -> bool;

    /// Takes one packet, and adds its interface to `rows`.
    fn take(&mut self, rows: &mut Packets) -> Option<ReceivedPacket>;

    /// Adds at most `room` packets to the rows.
    fn add(&mut self, room: usize, rows: &mut Packets);
}

/// A packet and its metadata.
pub(crate) struct ReceivedPacket {
    pub(crate) data: Data,
    pub(crate) interface: Arc<str>,
    /// Time of capture, in nanoseconds since 1970; 0 if unknown.
    pub(crate) time: u64,
    /// Its length on the wire, in bytes.
    pub(crate) length: u32,
    pub(crate) queue: Option<u16>,
    pub(crate) class: Class,
}

/// The bytes of a packet.
pub(crate) enum Data {
    /// In the memory of a port.
    Received(wirelane::Frame),
    Copied(Vec<u8>),
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Received(frame) => frame.data(),
            Self::Copied(bytes) => bytes,
        }
    }
}
