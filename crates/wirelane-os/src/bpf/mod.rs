//! BPF without a C library: instructions, an assembler for them, and what bpf(2) does with them.
//!
//! ```text
//!   Insn ──Assembler──▶ [Insn] ──Program::load──▶ Program ──Link::attach──▶ Link      on an interface
//!                                  │ verifier       ├─test_run──▶ Outcome            on one packet
//!                                  ▼                └─live_frames                    sends from inside
//!                               LoadError          Map, Words: what it shares with user space
//! ```
//!
//! Nothing here needs `/sys/fs/bpf`: programs, maps and links live as long as their descriptors.

pub mod asm;
pub mod btf;

mod link;
mod map;
mod mode;
mod program;
mod run;
mod uapi;
mod words;

#[cfg(test)]
mod tests;

use std::io;

pub use asm::{AsmError, Assembler, Label};
pub use link::{Attached, Link, attached, program_exists};
pub use map::{Map, MapKind, possible_cpus};
pub use mode::XdpMode;
pub use program::{Load, LoadError, Program, ProgramType, XdpAction};
pub use run::{Arrival, Outcome};
pub use wirelane_filter::ebpf::{self as insn, Alu, Cond, Insn, Reg, Size};
pub use words::Words;

use crate::memory;
use crate::privilege::{self, Capability};

/// The capabilities that XDP programs and their maps take and the calling thread does not have.
/// CAP_SYS_ADMIN stands for both (`bpf_capable`, `bpf_net_capable`), and before Linux 5.8 it alone
/// does.
pub fn missing_capabilities() -> Vec<Capability> {
    let Ok(have) = privilege::effective() else { return Vec::new() };
    if have.contains(Capability::SysAdmin) {
        return Vec::new();
    }
    let needed = [Capability::Bpf, Capability::NetAdmin];
    needed.into_iter().filter(|capability| !have.contains(*capability)).collect()
}

/// Makes something whose memory kernels before 5.11 count against RLIMIT_MEMLOCK, and refuse with
/// `EPERM` beyond it. Only then the limit is raised, as far as permitted, and a second attempt
/// made: newer kernels need no such thing, and raising it takes CAP_SYS_RESOURCE.
fn with_memory<T>(mut make: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let refused = match make() {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => error,
        result => return result,
    };
    if !missing_capabilities().is_empty() {
        return Err(refused);
    }
    if memory::lift_lock_limit() { make() } else { Err(refused) }
}
