//! An array of words that a program and user space share.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use wirelane_filter::ebpf::{Insn, Reg};

use super::map::{Map, MapKind};
use super::uapi::BPF_F_MMAPABLE;
use crate::error::{OsError, Result};
use crate::mmap::{Mapping, page_size};

/// Words of 64 bits, initially zero. Reading and writing them takes no system call and no
/// privilege. Linux 5.5.
#[derive(Debug)]
pub struct Words {
    map: Map,
    memory: Mapping,
    count: usize,
}

impl Words {
    /// Creates `count` words.
    ///
    /// # Errors
    /// As [`Map::create`]; `EINVAL` on older kernels, `EOVERFLOW` for too many words.
    pub fn create(name: &str, count: usize) -> Result<Words> {
        let bytes = count.checked_mul(size_of::<u64>()).and_then(|n| u32::try_from(n).ok());
        let too_many = || OsError::from_errno("bpf BPF_MAP_CREATE", name, libc::EOVERFLOW);
        let bytes = bytes.ok_or_else(too_many)?;
        let map = Map::with_flags(MapKind::Array, name, (bytes, 1), BPF_F_MMAPABLE)?;
        let len = (bytes as usize).next_multiple_of(page_size());
        let memory = Mapping::of_fd(&map, len, 0, true)?;
        Ok(Words { map, memory, count })
    }

    /// The number of words.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The word at `index`; 0 beyond the last one.
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Stores the word at `index`, if it exists. Programs see the value at the latest after the
    /// next system call of this thread.
    pub fn store(&self, index: usize, value: u64) {
        if let Some(word) = self.word(index) {
            word.store(value, Ordering::SeqCst);
        }
    }

    /// `dst = the address of the first word`: two instructions.
    pub fn address(&self, dst: Reg) -> [Insn; 2] {
        Insn::load_map_value(dst, self.map.as_fd().as_raw_fd())
    }

    fn word(&self, index: usize) -> Option<&AtomicU64> {
        // SAFETY: inside the mapping, which has `count` words at its page-aligned beginning and
        // lives as long as the reference; whoever shares it reads and writes whole words.
        (index < self.count)
            .then(|| unsafe { AtomicU64::from_ptr(self.memory.as_ptr().cast::<u64>().add(index)) })
    }
}
