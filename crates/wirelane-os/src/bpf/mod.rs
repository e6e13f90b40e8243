//! BPF without a C library: instructions, an assembler for them, and the commands of bpf(2).
//!
//! ```text
//!   Insn ──Assembler──▶ [Insn] ──Program::load──▶ Program ──Link::attach──▶ Link      on an interface
//!                                  │ verifier       ├─test_run──▶ Outcome            on one packet
//!                                  ▼                └─live_frames                    sends from inside
//!                               LoadError          Map, Words: what it shares with user space
//! ```
//!
//! This module does not need `/sys/fs/bpf`: programs, maps and links live as long as their
//! descriptors.

pub mod asm;
pub mod btf;

mod limit;
mod link;
mod map;
pub(crate) mod mode;
mod program;
mod run;
mod uapi;
mod words;

#[cfg(test)]
mod tests;

pub use asm::{AsmError, Assembler, Label};
pub use limit::missing_capabilities;
pub use link::{Attached, Link, attached, program_exists};
pub use map::{Map, MapKind, possible_cpus};
pub use mode::XdpMode;
pub use program::{Load, LoadError, Program, ProgramType, XdpAction};
pub use run::{Arrival, Outcome};
pub use wirelane_filter::ebpf::{Alu, Cond, Insn, Reg, Size};
pub use words::Words;
