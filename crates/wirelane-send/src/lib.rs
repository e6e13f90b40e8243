//! Sends packets at high rates with microsecond pacing, and measures the device or network between
//! two ports.
//!
//! ```text
//!   PacketSource ─▶ Pacer ─▶ engine ─┬─ sockets: a thread and a Tx per TX queue
//!  (wirelane-gen)                    └─ kernel: live frames of an XDP program
//! ```
//!
//! Depends on `wirelane` for ports and on `wirelane-gen` for packets. The library never prints.
//!
//! Sending is a separate crate: generator, flow files and measurements are half as large as the
//! library, and receive-only programs do not compile them.

pub mod engine;
pub mod kernel;
pub mod measure;
pub mod ndr;
pub mod pacer;
pub mod replay;
pub mod session;
pub mod sockets;
pub mod timing;

pub use engine::SendEngine;
pub use pacer::Pacing;
pub use session::{SendConfig, SendOutcome, SendProgress, Sending};
pub use timing::Timing;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
