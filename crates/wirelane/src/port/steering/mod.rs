//! Steering: which ring receives a packet, which TX queue sends it, and which CPU serves both.

pub(crate) mod pairing;
pub mod placement;
pub(in crate::port) mod selection;
pub(in crate::port) mod xps;
pub(in crate::port) mod xps_binding;
pub(in crate::port) mod xps_watch;
