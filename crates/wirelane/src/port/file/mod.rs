//! `file:PATH`: a capture file as a port. It is read as fast as frames come back, or written.
//!
//! Opened for receiving, the file is the traffic: one [`Rx`](super::Rx) hands out its packets in
//! their order, with the queue, class, time and wire length that the file records. Files of
//! Wirelane name queue and class in the description of each interface (`rx queue 3`); in other
//! files an interface is no queue, and a packet belongs to
//! [`Class::Rx`](crate::Class::Rx) unless it is marked as sent. The masks apply to these: packets
//! that are not selected are neither delivered nor counted. Counters exist per interface as well,
//! and a capture writes the same interfaces again. It is still
//! one stream, so order, `-c` and pipes keep their meaning.
//!
#![doc = include_str!("options.md")]
//!
//! Nothing is lost: while no frame is free, nothing is read. Packets longer than the usual frame of
//! 2 KiB get frames of 128 KiB, which are set up when the first one comes; what exceeds even those
//! is cut, its wire length kept, and [`Port::diagnostics`](super::Port::diagnostics) says how many
//! were, and which times are not those of the file . Of a damaged file everything before the damage
//! is delivered, then [`Rx::readiness`](super::Rx::readiness) returns the error once, then
//! [`Readiness::End`](super::Readiness::End). `file:-` is standard input or output. A pipe may be
//! live: what has come whole is received at once, and [`Rx::readiness`](super::Rx::readiness) names
//! the descriptor to wait for, also if it is compressed.
//!
//! Opened for transmitting, what is sent is written into a new file, whose suffix decides format
//! and compression. There is one TX queue, because the packets of a file follow each other; a
//! capture of many queues into one file is made by [`capture::live`](crate::session::capture).
//! [`Tx::pending`](super::Tx::pending) counts what waits in memory, and the counters what is safely
//! in the file. [`Tx::flush`](super::Tx::flush) writes the rest and reports what went wrong.
//!
//! The reader never blocks on a pipe, compressed or not: it reports that no further whole packet is
//! available, and the caller waits.

mod control;
mod cursor;
mod open;
mod origin;
mod progress;
mod sink;
mod source;

pub use self::open::open;
pub use self::progress::MAX_PACKET;
