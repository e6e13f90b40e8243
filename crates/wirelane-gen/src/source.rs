//! Packets to send, in the order of their departures.

use std::fmt;

/// Packets to send, in the order of their departures. A sending thread has one.
///
/// The thread asks [`next`](Self::next) what comes, waits until it is due, and lets
/// [`write`](Self::write) write it straight into the memory that is sent.
pub trait Source: Send {
    /// Describes the next packet; `None` after the last. The answer stays the same until
    /// [`write`](Self::write) or [`skip`](Self::skip).
    ///
    /// # Errors
    /// The source cannot be read any further. What came before is valid.
    fn next(&mut self) -> Result<Option<Departure>, SourceError>;

    /// Writes the packet that [`next`](Self::next) described to the front of `packet`, and goes on
    /// to the one after it. `packet` has room for at least [`Departure::len`] bytes. `now` is the
    /// departure on the monotonic clock in nanoseconds, for a packet that carries its time.
    fn write(&mut self, packet: &mut [u8], now: u64);

    /// Goes on without the packet, which could not be sent.
    fn skip(&mut self);
}

/// One packet to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When it is due, in nanoseconds after the start. 0 for as fast as possible.
    pub at: u64,
    /// Bytes from the Ethernet header to the end of the payload, without frame check sequence.
    pub len: usize,
    /// The position of the stream or file that it belongs to, for its counters.
    pub stream: u32,
}

/// Which share of the packets one of several sending threads has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The position of the thread, below `of`.
    pub index: u32,
    /// How many threads there are; at least 1.
    pub of: u32,
}

impl Lane {
    /// All packets on one thread.
    pub const ALL: Self = Self { index: 0, of: 1 };
}

/// Why a source ended early.
#[derive(Debug)]
pub struct SourceError(Box<dyn std::error::Error + Send + Sync>);

impl SourceError {
    /// Wraps the cause.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }

    /// The cause.
    pub fn into_inner(self) -> Box<dyn std::error::Error + Send + Sync> {
        self.0
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SourceError {}
