//! Two-way flows as IPFIX messages (RFC 7011, RFC 5103): an exporter to a collector, a pipe format,
//! and a decoder.
//!
//! Fields without an IANA element, such as Community ID, handshake RTT, retransmissions and the
//! outer addresses of a tunnel, are private elements (see [`element`]). The exporter sends them if
//! an enterprise number is given.

mod collector;
mod decoder;
pub mod element;
mod encoder;
mod exporter;
mod format;
mod link;
mod pipe;
mod record;
mod sender;
mod session;
mod shape;
mod shared;
mod spool;
mod time;

pub use collector::{Collector, Transport};
pub use decoder::{Decoder, read_message};
pub use encoder::{Encoder, Message};
pub use exporter::{Exporter, Limits, Watch};
pub use pipe::Pipe;
pub use shared::Sent;

#[cfg(test)]
mod tests;
