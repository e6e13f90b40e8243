//! Sources of packets to send.

use crate::error::Result;

/// Packets to send, in order of departure. Each sending thread has a source.
///
/// The thread calls [`next`](Self::next) for the time and length of a packet, waits until it is
/// due, and calls [`write`](Self::write) to write it directly into send memory.
pub trait PacketSource: Send {
    /// Describes the next packet; `None` after the last. Returns the same packet until
    /// [`write`](Self::write) or [`skip`](Self::skip).
    ///
    /// # Errors
    /// The source cannot be read further. Earlier packets are valid.
    fn next(&mut self) -> Result<Option<Departure>>;

    /// Writes the packet that [`next`](Self::next) described to the front of `packet`, and advances
    /// to the next. `packet` has at least [`Departure::len`] bytes. `now` is the departure on the
    /// monotonic clock in nanoseconds, for packets that carry a timestamp.
    fn write(&mut self, packet: &mut [u8], now: u64);

    /// Advances without the packet, which cannot be sent.
    fn skip(&mut self);
}

/// The next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The due time in nanoseconds after the start; 0 for as fast as possible.
    pub at: u64,
    /// The frame length, without frame check sequence.
    pub len: usize,
    /// The index of its stream or file, for counters.
    pub stream: u32,
}

/// The share of one of several sending threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadShare {
    /// The index of the thread, below `of`.
    pub index: u32,
    /// The number of threads; at least 1.
    pub of: u32,
}

impl ThreadShare {
    /// A single thread with all packets.
    pub const ALL: Self = Self { index: 0, of: 1 };
}
