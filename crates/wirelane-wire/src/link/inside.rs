//! What a link header says of what it carries.

use crate::EtherType;

/// What follows a link header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    /// A packet of this type at this offset; VLAN tags may stand before it.
    Network(EtherType, usize),
    /// The frame serves the link itself.
    Control,
    /// What it carries is encrypted.
    Encrypted,
    /// The frame ends within its link header.
    Short,
}
