//! The work of one thread.

use crate::port::Rx;

/// The work of one thread.
pub struct Work<C> {
    /// The index of the receiving ends' port.
    pub port: usize,
    /// The receiving ends.
    pub rx: Vec<Rx>,
    /// Handles the packets.
    pub consumer: C,
}
