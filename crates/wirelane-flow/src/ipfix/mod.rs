//! Flows as IPFIX messages (RFC 7011), two-way (RFC 5103): to a collector, through a pipe, and
//! back.
//!
//! Fields that no element of IANA's stands for (Community ID, handshake RTT, retransmissions, the
//! outer addresses of a tunnel and others: [`element`]) go out as elements of an enterprise, if the
//! exporter is given its number.

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
pub use decoder::{DecodeError, Decoder, read_message};
pub use encoder::{Encoder, Message};
pub use exporter::{Exporter, Limits, Watch};
pub use pipe::Pipe;
pub use shared::Sent;

#[cfg(test)]
mod tests;
