//! Memory for machine code: written once, then executable and never writable again.

mod instruction_cache;

use crate::error::{OsError, Result};
use crate::mmap::{Mapping, Options};

/// Machine code in memory that is readable and executable; unmapped when dropped.
///
/// At no time is it writable and executable (W^X).
#[derive(Debug)]
pub struct Executable {
    mapping: Mapping,
    len: usize,
}

impl Executable {
    /// Copies `code` into memory of its own.
    ///
    /// # Errors
    /// `EINVAL` without code, `ENOMEM` without memory; `EACCES` or `EPERM` from mprotect(2) where a
    /// security policy forbids code made at run time (SELinux `execmem`, `PR_SET_MDWE`). On aarch64
    /// what membarrier(2) gives where it is missing or forbidden.
    pub fn new(code: &[u8]) -> Result<Self> {
        let options = Options { no_huge: true, ..Options::default() };
        let (mapping, _) = Mapping::anonymous(code.len(), options)?;
        // SAFETY: the mapping is at least as long as the code, and nobody else knows it yet.
        unsafe { mapping.as_ptr().copy_from_nonoverlapping(code.as_ptr(), code.len()) };
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        // SAFETY: the range is the mapping's own, which nobody else knows yet; from here on it is
        // only read.
        let status = unsafe { libc::mprotect(mapping.as_ptr().cast(), mapping.len(), protection) };
        if status != 0 {
            return Err(OsError::last("mprotect", format!("{} bytes of machine code", code.len())));
        }
        instruction_cache::publish(mapping.as_ptr(), code.len())?;
        Ok(Self { mapping, len: code.len() })
    }

    /// The address of the first instruction.
    pub fn as_ptr(&self) -> *const u8 {
        self.mapping.as_ptr()
    }

    /// The code.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: initialised in `new`, readable, and not writable until the mapping goes.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
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
        assert_eq!(Executable::new(&[]).unwrap_err().errno(), Some(libc::EINVAL));
    }
}
