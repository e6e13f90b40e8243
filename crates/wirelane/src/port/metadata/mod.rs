//! Metadata of packets and files that is not in the packets: the interfaces that a packet stream
//! comes from, and names, secrets and other blocks of a capture file.

pub(in crate::port) mod discovered;
pub(in crate::port) mod file;
pub(in crate::port) mod interfaces;
