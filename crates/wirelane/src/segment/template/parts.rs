//! What of the headers differs from piece to piece.

use wirelane_wire::checksum::Sum;
use wirelane_wire::{Fragment, TcpFlags};

/// A part of the payload that goes out as one frame.
pub(in crate::segment) struct Piece {
    /// Where it is in the payload.
    pub(in crate::segment) offset: usize,
    /// Its length.
    pub(in crate::segment) len: usize,
    /// How many came before.
    pub(in crate::segment) index: u32,
    /// Whether it is the last one.
    pub(in crate::segment) last: bool,
    /// Its sum; zero where nothing depends on it.
    pub(in crate::segment) sum: Sum,
}

/// What of the transport header differs from piece to piece. Places are below
/// [`MAX_HEADER`](crate::segment::MAX_HEADER); in as few bytes as that takes, because a template is
/// moved when it is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Transport {
    Tcp {
        at: u16,
        header_len: u16,
        sequence: u32,
        flags: TcpFlags,
        urgent: u16,
        accurate_ecn: bool,
        /// Of pseudo-header and header without lengths and what differs.
        base: Sum,
        /// Of the pseudo-header without its length.
        pseudo: Sum,
    },
    Udp {
        at: u16,
        checksum: bool,
        base: Sum,
        pseudo: Sum,
    },
    /// Fragments: the transport header is payload, in the prefix, with this checksum at this place.
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

/// What of another header differs.
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
    /// An IPv6 header of fragments; its fragment header comes behind the frame's headers, and
    /// `link` is the field that announces it.
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
