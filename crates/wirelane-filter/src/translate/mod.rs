//! Classic BPF to eBPF, for XDP and for user space.

mod code;
mod emit;
mod target;

pub use self::emit::translate;
pub use self::target::{Ending, Target};
