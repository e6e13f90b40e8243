//! Classic BPF to eBPF, for XDP.

mod code;
mod emit;
mod target;

pub use self::emit::translate;
pub use self::target::{Buffers, Ending};
