//! From a spec to an open port.

use super::{Backend, OpenOptions, Port, Spec, file, packet, sim};
use crate::error::Result;

/// Opens the port that `spec` names.
///
/// A bare interface name takes the best backend that works; the port's [`super::PortInfo`] says
/// which one that is and why.
///
/// # Errors
/// The spec asks for what the backend or the machine does not have; each backend says more.
pub fn open(spec: &Spec, options: &OpenOptions) -> Result<Box<dyn Port>> {
    match spec.backend {
        Some(Backend::Sim) => Ok(Box::new(sim::Sim::open(spec, options)?)),
        Some(Backend::File) => Ok(Box::new(file::FilePort::open(spec, options)?)),
        Some(Backend::Packet) | None => Ok(Box::new(packet::PacketPort::open(spec, options)?)),
    }
}
