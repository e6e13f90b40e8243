//! Programs with loops, which only libpcap runs.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};

use wirelane_filter::Instruction;

use crate::real::{self, RealLibrary};

/// A program that libpcap has validated.
pub(super) struct Foreign {
    library: &'static RealLibrary,
    instructions: Vec<libc::sock_filter>,
}

impl Foreign {
    /// `None` if there is no libpcap, or it finds the program invalid.
    pub(super) fn new(instructions: &[Instruction]) -> Option<Self> {
        let library = real::library().ok()?;
        let plain = |insn: &Instruction| {
            let Instruction { code, jt, jf, k } = *insn;
            libc::sock_filter { code, jt, jf, k }
        };
        let instructions: Vec<_> = instructions.iter().map(plain).collect();
        let len = c_int::try_from(instructions.len()).ok()?;
        // SAFETY: so many instructions live through the call.
        let valid = unsafe { (library.bpf_validate)(instructions.as_ptr(), len) } != 0;
        valid.then_some(Self { library, instructions })
    }

    /// The number of accepted bytes; 0 rejects the packet.
    pub(super) fn run(&self, data: &[u8], wire_len: u32) -> u32 {
        let len = c_uint::try_from(data.len()).unwrap_or(c_uint::MAX);
        // SAFETY: libpcap has found that it ends in a return and stays inside; loads are checked
        // against the length, of bytes that are there.
        unsafe {
            (self.library.bpf_filter)(self.instructions.as_ptr(), data.as_ptr(), wire_len, len)
        }
    }
}
