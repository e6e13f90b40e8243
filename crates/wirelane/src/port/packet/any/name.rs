//! The name of the port.

/// The same name as the device of libpcap.
pub(in crate::port) const NAME: &str = "any";
