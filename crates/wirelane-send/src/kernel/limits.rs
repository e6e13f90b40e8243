//! What programs can do at most.

/// Streams at most: the kernel calls so many programs directly (`BPF_DISPATCHER_MAX`), and other
/// programs want some, too.
pub const MAX_STREAMS: usize = 32;

/// The longest frame: a page of 4 KiB less what the kernel keeps in it.
pub const MAX_FRAME: usize = 3400;

/// How much of a packet's front a program writes at most.
pub const MAX_HEAD: usize = 512;
