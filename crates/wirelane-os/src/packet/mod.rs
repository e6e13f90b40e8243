//! AF_PACKET sockets with memory-mapped rings.
//!
//! Use this order, which neither loses packets nor receives wrong ones: [`PacketSocket::open`]
//! (which receives nothing yet), version, rings, [`PacketSocket::map`], filter, and
//! [`PacketSocket::bind`] last. Sources: `net/packet/af_packet.c` and
//! `Documentation/networking/packet_mmap.rst` of Linux.

mod fanout;
mod options;
mod ring;
mod rings;
mod send;
mod socket;
mod uapi;

#[cfg(test)]
mod tests;

pub use fanout::Fanout;
pub use options::attach_filter;
pub use ring::{RingRequest, SlotRingRequest, Statistics, Version};
pub use socket::PacketSocket;
pub use uapi::*;
