//! Memory for machine code: written once, then executable and never writable again.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use super::instruction_cache;
use crate::error::Refused;

/// Machine code in memory that is readable and executable; unmapped when dropped.
///
/// At no time is it writable and executable (W^X).
#[derive(Debug)]
pub(super) struct Executable {
    /// Start of the mapping.
    first: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns its mapping, which nothing changes until it is dropped.
unsafe impl Send for Executable {}
// SAFETY: as above.
unsafe impl Sync for Executable {}

impl Executable {
    /// Copies `code` into a separate mapping.
    ///
    /// # Errors
    /// `EINVAL` without code, `ENOMEM` without memory; `EACCES` or `EPERM` from mprotect(2) if a
    /// security policy forbids code made at run time (SELinux `execmem`, `PR_SET_MDWE`). On
    /// aarch64, the error of membarrier(2) if that call is missing or forbidden.
    pub(super) fn new(code: &[u8]) -> Result<Self, Refused> {
        let size = || format!("{} bytes of machine code", code.len());
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let first = unsafe { libc::mmap(ptr::null_mut(), code.len(), access, flags, -1, 0) };
        let first = match NonNull::new(first.cast::<u8>()) {
            Some(first) if first.as_ptr().cast() != libc::MAP_FAILED => first,
            _ => return Err(Refused::last("mmap", size())),
        };
        let memory = Self { first, len: code.len() };
        // SAFETY: the mapping is at least as long as the code, and nobody else knows it yet.
        unsafe { first.as_ptr().copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the range is the mapping's own, which nobody else knows yet; from here on it is
        // only read.
        let status = unsafe { libc::mprotect(first.as_ptr().cast(), code.len(), protection) };
        if status != 0 {
            return Err(Refused::last("mprotect", size()));
        }
        instruction_cache::publish(memory.as_ptr(), code.len())?;
        Ok(memory)
    }

    /// The address of the first instruction.
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.first.as_ptr()
    }

    /// The code.
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: initialised in `new`, readable, and not writable until the mapping goes.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nobody runs code of it any more.
        unsafe { libc::munmap(self.first.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The permissions of the mapping that holds `address`, such as `r-xp`.
    fn permissions(address: *const u8) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let address = address.addr();
        let line = maps.lines().find(|line| {
            let (begin, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let parse = |text| usize::from_str_radix(text, 16).unwrap();
            (parse(begin)..parse(end)).contains(&address)
        });
        line.unwrap().split(' ').nth(1).unwrap().to_owned()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no mprotect")]
    fn code_is_executable_and_not_writable() {
        let code = [0xc3; 5000];
        let executable = Executable::new(&code).unwrap();
        assert_eq!(executable.bytes(), code);
        assert_eq!(permissions(executable.as_ptr()), "r-xp");
        assert_eq!(permissions(executable.as_ptr().wrapping_add(4999)), "r-xp");
        assert_eq!(permissions((&raw const code).cast()), "rw-p");
    }

    #[test]
    fn no_code_is_refused() {
        assert_eq!(Executable::new(&[]).unwrap_err().source.raw_os_error(), Some(libc::EINVAL));
    }
}
