//! Where packets come from: the receiving ends of a port, or the search of a store.

pub(crate) mod belt;
pub(crate) mod ends;
pub(crate) mod stored;

use std::sync::Arc;
use std::time::Instant;

use wirelane::{Class, Result};
use wirelane_arrow::Packets;

/// Packets that come, and wait until they become frames or rows.
pub(crate) trait Intake: Send {
    /// Has some packets, those that were not taken yet or about `most` new ones. True if there are
    /// any, false at the end; `None` if nothing comes before `until`.
    fn receive(&mut self, most: usize, until: Instant) -> Option<Result<bool>>;

    /// Whether there are packets that were not taken yet.
    fn has_some(&self) -> bool;

    /// Takes one of them. `rows` learns of its interface.
    fn take(&mut self, rows: &mut Packets) -> Option<Taken>;

    /// Makes rows of `room` of them at most.
    fn add(&mut self, room: usize, rows: &mut Packets);
}

/// A packet, with what is known of it.
pub(crate) struct Taken {
    pub(crate) data: Data,
    pub(crate) interface: Arc<str>,
    /// When it was seen, in nanoseconds since 1970; 0 if nobody knows.
    pub(crate) time: u64,
    /// Bytes that it had on the wire.
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
