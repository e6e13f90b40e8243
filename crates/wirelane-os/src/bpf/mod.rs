//! BPF: the instructions of programs that run in the kernel.

pub mod insn;

pub use insn::{Alu, Cond, Insn, Reg, Size};
