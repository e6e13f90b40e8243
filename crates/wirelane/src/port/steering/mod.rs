//! Steering: which ring receives a packet, which TX queue sends it, and which CPU serves both.

pub(crate) mod pairing;
pub mod placement;
pub(crate) mod selection;
pub(crate) mod xps;
pub(crate) mod xps_binding;
pub(crate) mod xps_watch;
