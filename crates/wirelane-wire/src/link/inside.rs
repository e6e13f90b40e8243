//! The content of a frame, as its link header describes it.

use crate::ethernet::EtherType;

/// The content behind a link header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// A packet of this type at this offset, or VLAN tags before it.
    Network(EtherType, usize),
    /// A frame of the link layer.
    Control,
    /// The payload is encrypted.
    Encrypted,
    /// The frame ends within its link header.
    Short,
}
