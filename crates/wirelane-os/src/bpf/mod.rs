//! BPF: the instructions of programs that run in the kernel, and an assembler for them.

pub mod asm;
pub mod insn;

pub use asm::{AsmError, Assembler, Label};
pub use insn::{Alu, Cond, Insn, Reg, Size};
