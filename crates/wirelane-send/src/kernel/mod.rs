//! The kernel as a sender: frames that an XDP program writes and sends, without a copy into a socket.

pub mod live;

pub use live::{LiveSender, Pace, STAMP_BYTES, Sending, Sent};
