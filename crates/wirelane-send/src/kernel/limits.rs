//! Limits of the programs.

/// The largest number of streams. The XDP dispatcher has 48 slots (`BPF_DISPATCHER_MAX`), and other
/// programs need some of them.
pub const MAX_STREAMS: usize = 32;

/// The longest frame: a page of 4 KiB minus the kernel's headroom and bookkeeping in it.
pub const MAX_FRAME: usize = 3400;

/// The longest head of a packet that a program writes.
pub const MAX_HEAD: usize = 512;
