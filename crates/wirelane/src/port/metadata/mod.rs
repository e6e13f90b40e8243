//! Metadata that is not in packets: the interfaces of a packet stream, and names, secrets and other
//! blocks of a capture file.

pub(in crate::port) mod discovered;
pub(in crate::port) mod file;
pub(in crate::port) mod interfaces;
