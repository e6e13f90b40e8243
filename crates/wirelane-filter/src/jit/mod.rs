//! Machine code for filters in user space.
//!
//! ```text
//!   Program ──flow──▶ Graph ──emit──▶ bytes ──Executable──▶ Jit
//!             what is known,   x86_64 or     written, then
//!             what is needed   aarch64       made executable
//! ```
//!
//! Generated code is safe for any program and any packet: it reads a packet only after it has
//! compared the place with the length of the packet, keeps scratch memory on the stack, writes
//! nothing else but verdicts, and always ends, because jumps lead forward.
//!
//! It is made from classic BPF and not from the translation to eBPF: the kernel verifies that one
//! before it runs, and here there is no verifier. That also leaves the checks of the length to the
//! generator, which can put many into one.

mod aarch64;
mod code;
mod dead;
mod emit;
#[cfg_attr(not(target_os = "linux"), path = "no_executable.rs")]
mod executable;
mod flow;
mod forward;
mod function;
mod graph;
#[cfg(target_os = "linux")]
mod instruction_cache;
mod layout;
mod sets;
mod x86_64;

#[cfg(all(test, not(miri)))]
mod tests;

pub use self::function::{AVAILABLE, Jit};
pub use self::layout::Layout;
