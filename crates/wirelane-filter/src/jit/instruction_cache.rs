//! Makes written code executable. x86-64 needs nothing, because its caches are coherent; on
//! aarch64, caches and pipelines are flushed.
//!
//! On aarch64,
//! [`membarrier`](https://github.com/torvalds/linux/blob/v6.18/kernel/sched/membarrier.c) clears
//! the pipelines of threads that may have run another filter at the same address.

#![allow(unsafe_code)]

#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(super) use aarch64::publish;

/// Lets other threads run the `len` bytes at `code`.
#[cfg(any(not(target_arch = "aarch64"), miri))]
#[expect(clippy::unnecessary_wraps, reason = "fails on processors that need it")]
pub(super) fn publish(_code: *const u8, _len: usize) -> Result<(), crate::error::Refused> {
    Ok(())
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod aarch64 {
    use std::arch::asm;
    use std::sync::OnceLock;

    use crate::error::Refused;

    /// Lets other threads run the `len` bytes at `code`, which are readable.
    pub(in crate::jit) fn publish(code: *const u8, len: usize) -> Result<(), Refused> {
        clean(code.addr(), len);
        synchronise_threads()
    }

    /// Makes the code visible to instruction fetches of all processors, by the sequence of the Arm
    /// Architecture Reference Manual (part B, caches and concurrent modification of instructions).
    fn clean(code: usize, len: usize) {
        let kind: u64;
        // SAFETY: reads a register that Linux lets user space read, or answers for
        // (`SCTLR_EL1.UCT`).
        unsafe {
            asm!("mrs {}, ctr_el0", out(reg) kind, options(nomem, nostack, preserves_flags));
        }
        // DminLine and IminLine: the binary logarithm of the words of the smallest line.
        let (data_line, instruction_line) = (4 << (kind >> 16 & 0xf), 4 << (kind & 0xf));
        for line in lines(code, len, data_line) {
            // SAFETY: writes a line back to where instructions are fetched from; the line holds
            // bytes of the mapping, which is readable.
            unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
        }
        // SAFETY: a barrier: the lines have been written back.
        unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
        for line in lines(code, len, instruction_line) {
            // SAFETY: forgets what was fetched from the line; the kernel sets `SCTLR_EL1.UCI`.
            unsafe { asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
        }
        // SAFETY: barriers: no processor has the old lines, and this one fetches again.
        unsafe { asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
    }

    fn lines(code: usize, len: usize, line: usize) -> impl Iterator<Item = usize> {
        (code & !(line - 1)..code + len).step_by(line)
    }

    /// Makes every running thread of the process discard instructions that its processor has
    /// already fetched. A new filter may occupy the memory of an earlier one that a thread has just
    /// left.
    ///
    /// Linux 4.16. The process must register once.
    fn synchronise_threads() -> Result<(), Refused> {
        const REGISTER_PRIVATE_EXPEDITED_SYNC_CORE: libc::c_int = 1 << 6;
        const PRIVATE_EXPEDITED_SYNC_CORE: libc::c_int = 1 << 5;
        static REGISTERED: OnceLock<()> = OnceLock::new();
        if REGISTERED.get().is_none() {
            membarrier(REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, "register SYNC_CORE")?;
            let _ = REGISTERED.set(());
        }
        membarrier(PRIVATE_EXPEDITED_SYNC_CORE, "SYNC_CORE")
    }

    fn membarrier(command: libc::c_int, name: &str) -> Result<(), Refused> {
        // SAFETY: the call touches no memory.
        match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
            0 => Ok(()),
            _ => Err(Refused::last("membarrier", name)),
        }
    }
}
