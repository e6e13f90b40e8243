//! Machine code for filters in user space.
//!
//! ```text
//!   Program ──flow──▶ Graph ──emit──▶ bytes ──Executable──▶ Jit
//!             what is known,   x86_64 or     written, then
//!             what is needed   aarch64       made executable
//! ```
//!
//! Generated code is safe for any program and any packet: it compares each offset with the length
//! of the packet before it reads there, keeps scratch memory on the stack, writes only verdicts,
//! and always ends, because jumps lead forward.
//!
//! The input is classic BPF instead of the translation to eBPF: the kernel verifies eBPF before it
//! runs, and here there is no verifier. So the generator also places the length checks, and can
//! merge several into one.
//!
//! One length check covers all loads at fixed offsets below 60 bytes; a second body serves shorter
//! packets. The loop over a batch is part of the code, so 64 packets cost one call. On other CPUs
//! the interpreter runs, and the port adds a note.
//!
//! Measured on a busy virtual machine with 2 CPUs of an AMD EPYC: `cranelift-jit` adds about 50
//! crates that build in 68 s, and takes 1.5 to 2.9 ms per program; this compiler takes 0.02 to 0.04
//! ms. In `wirelane bench filter` (64-byte frames), `tcp port 443 and host 10.0.0.1` costs 2.2 to
//! 3.7 ns per packet, and a chain of 50 hosts 2.9 to 9.9 ns: 11 to 13 and 36 to 195 times as fast
//! as libpcap's interpreter in the same rounds. With one packet per call, it takes 3.6 to 17 ns,
//! the JIT of `rbpf` 10 to 35 ns on the translation, and Cranelift with memory checks 31 to 42 ns.

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
