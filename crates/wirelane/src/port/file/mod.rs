//! `file:PATH`: a capture file as a port, for reading at the consumer's speed or for writing.
//!
//! A file opened for receiving is a traffic source. One [`Rx`](super::Rx) delivers its packets in
//! order, with the queue, class, time and wire length that the file records. Wirelane's files name
//! queue and class in the description of each interface (`rx queue 3`). In other files an interface
//! is not a queue, and a packet has [`Class::Rx`](crate::Class::Rx) unless it is marked as sent.
//! The masks apply to these: packets that are not selected are neither delivered nor counted.
//! Counters exist per interface as well, and a capture writes the same interfaces again. All
//! packets form one stream, so order, `-c` and pipes keep their meaning.
//!
#![doc = include_str!("options.md")]
//!
//! No packet is lost: reading pauses while no frame is free. Packets longer than the usual frame of
//! 2 KiB use frames of 260 KiB, allocated for the first such packet. Packets that exceed even those
//! are truncated, and keep their wire length. [`Port::diagnostics`](super::Port::diagnostics)
//! reports the number of truncated packets and of changed timestamps. For a damaged file, all
//! packets before the damage are delivered. Then [`Rx::readiness`](super::Rx::readiness) returns
//! the error once, then [`Readiness::End`](super::Readiness::End).
//!
//! `file:-` is standard input or output. A pipe may be live: complete packets are received at once,
//! and [`Rx::readiness`](super::Rx::readiness) returns the descriptor to wait for, also for
//! compressed input.
//!
//! A file opened for transmitting is created, and sent packets are written to it. Its suffix
//! determines format and compression. There is one TX queue, because the packets of a file are one
//! sequence; a [capture](crate::session::capture) writes many queues into one file.
//! [`Tx::pending`](super::Tx::pending) counts packets in memory, and the counters count packets
//! that are safely in the file. [`Tx::flush`](super::Tx::flush) writes the rest and reports errors.
//!
//! The reader never blocks on a pipe, compressed or not: it reports that no further whole packet is
//! available, and the caller waits.

mod control;
mod cursor;
pub(crate) mod open;
mod origin;
pub(crate) mod progress;
mod sink;
mod source;

pub(crate) use self::open::open;
