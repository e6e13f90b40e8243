//! The environment of a translated program.

/// The number of buffers of a packet in an XDP program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// Each in one buffer.
    One,
    /// Some in several: the program is loaded with `BPF_F_XDP_HAS_FRAGS`.
    Several,
}

/// How a translated program begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A complete program: R1 holds the context at entry, and it exits with the result in R0.
    Exit,
    /// Part of a larger program: the context is in R6, which is kept, and all ways lead behind the
    /// last instruction, with the result in R0. R1 to R5, R7, R9 and the 64 bytes below R10 are
    /// overwritten.
    FallThrough,
}
