//! Metadata that is not in packets: the interfaces of a packet stream, and names, secrets and other
//! blocks of a capture file.

pub(crate) mod discovered;
pub(crate) mod file;
pub(crate) mod interfaces;
