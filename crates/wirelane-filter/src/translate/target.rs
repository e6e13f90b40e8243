//! What a translated program is for.

use crate::packet::VISIBLE;

/// Where a translated program runs: decides how it finds the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// In an XDP program; the context is `struct xdp_md`.
    Xdp {
        /// Whether the program is loaded for packets in several buffers (`BPF_F_XDP_HAS_FRAGS`).
        fragments: bool,
    },
    /// In user space; the context is a [`Context`](crate::Context).
    User,
}

/// How a translated program begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A program of its own: the context comes in R1, and it exits with the result in R0.
    Exit,
    /// Part of a larger program: the context is in R6, which is kept, and all ways lead behind the
    /// last instruction, with the result in R0. R1 to R5, R7, R9 and the 64 bytes below R10 are
    /// overwritten.
    FallThrough,
}

impl Target {
    /// Bytes of a packet that a program can see.
    pub(super) fn limit(self) -> u32 {
        match self {
            Target::Xdp { .. } => XDP_LIMIT,
            Target::User => VISIBLE,
        }
    }
}

/// `MAX_PACKET_OFF` of `kernel/bpf/verifier.c`.
pub(super) const XDP_LIMIT: u32 = 0xffff;
