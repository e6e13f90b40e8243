//! What the port is called.

/// As a device of libpcap.
pub(in crate::port) const NAME: &str = "any";
