//! The kernel as a sender: frames that an XDP program writes and sends, without a copy into a socket.

mod anchor;
mod code;
mod field;
pub mod live;
mod program;
mod refusal;

pub use live::{LiveSender, Pace, STAMP_BYTES, Sending, Sent};
pub use refusal::Refusal;

/// Streams at most: the kernel calls so many programs directly (`BPF_DISPATCHER_MAX`), and other
/// programs want some, too.
pub const MAX_STREAMS: usize = 32;
