//! The header fields that differ from piece to piece.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{Fragment, TcpFlags};

/// A part of the payload that is sent as one frame.
pub(in crate::segment) struct Piece {
    /// Its offset in the payload.
    pub(in crate::segment) offset: usize,
    /// Its length.
    pub(in crate::segment) len: usize,
    /// Number of pieces before it.
    pub(in crate::segment) index: u32,
    /// Whether it is the last one.
    pub(in crate::segment) last: bool,
    /// Its sum; zero if no checksum depends on it.
    pub(in crate::segment) sum: Sum,
}

/// The transport header's fields that differ from piece to piece. Offsets are below
/// [`MAX_HEADER`](crate::segment::parameters::MAX_HEADER); the fields are as small as possible,
/// because a template is moved when it is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Transport {
    Tcp {
        at: u16,
        header_len: u16,
        sequence: u32,
        flags: TcpFlags,
        urgent: u16,
        accurate_ecn: bool,
        /// The sum of pseudo-header and header without lengths and changing fields.
        base: Sum,
        /// The sum of the pseudo-header without its length.
        pseudo: Sum,
    },
    Udp {
        at: u16,
        checksum: bool,
        base: Sum,
        pseudo: Sum,
    },
    /// Fragments: the transport header is payload, in the prefix, with this checksum at this
    /// offset.
    Fragment {
        checksum: Option<(u16, u16)>,
    },
    /// Only a checksum, from `start` on.
    Whole {
        start: u16,
        field: u16,
        nonzero: bool,
    },
}

/// The changing fields of another header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Fix {
    #[default]
    None,
    Ipv4 {
        at: u16,
        id: u16,
        step: u16,
        base: Sum,
    },
    Ipv6 {
        at: u16,
    },
    /// An IPv4 header of fragments.
    Fragment4 {
        at: u16,
        base: Sum,
        first_base: Sum,
        options_len: u8,
    },
    /// An IPv6 header of fragments; its fragment header follows the frame's headers, and `link` is
    /// the field that announces it.
    Fragment6 {
        at: u16,
        link: u16,
        header: Fragment,
    },
    Udp {
        at: u16,
        checksum: bool,
        pseudo: Sum,
    },
    Gre {
        at: u16,
        checksum: bool,
    },
}

impl Fix {
    pub(super) fn has_checksum(&self) -> bool {
        matches!(self, Self::Udp { checksum: true, .. } | Self::Gre { checksum: true, .. })
    }
}
