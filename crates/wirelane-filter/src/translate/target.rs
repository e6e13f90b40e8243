//! The environment of a translated program.

/// The number of buffers of a packet in an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// Each packet is in one buffer.
    One,
    /// Some packets are in several buffers: the program is loaded with `BPF_F_XDP_HAS_FRAGS`.
    Several,
}

/// The start and the end of a translated program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A complete program: R1 holds the context at entry, and it exits with the result in R0.
    Exit,
    /// Part of a larger program: R6 holds the context and is preserved. All paths lead behind the
    /// last instruction, with the result in R0. R1 to R5, R7, R9 and the 64 bytes below R10 are
    /// overwritten.
    FallThrough,
}
