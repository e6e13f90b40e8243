//! Memory for direct I/O: buffers of one size, each owned by one holder at a time.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wirelane_os::memory;
use wirelane_os::mmap::{Mapping, Options};
use wirelane_os::{OsError, Result};

use super::file::ALIGNMENT;

/// Buffers of one size, aligned for direct I/O. All of their memory is there from the start.
#[derive(Clone, Debug)]
pub struct Buffers(Arc<BufferMemory>);

/// One of [`Buffers`]: bytes that the holder owns alone. Dropping it gives it back.
pub struct Buffer {
    region: Arc<BufferMemory>,
    index: usize,
}

/// The memory. Which of it is free, one bit per buffer.
#[derive(Debug)]
struct BufferMemory {
    memory: Mapping,
    count: usize,
    size: usize,
    free: Box<[AtomicU64]>,
}

impl Buffers {
    /// `count` buffers of at least `size` bytes; the size is rounded up to a multiple of
    /// [`ALIGNMENT`].
    ///
    /// # Errors
    /// `EINVAL` without any, `ENOMEM` when there is not that much memory, and what limits it.
    pub fn new(count: usize, size: usize) -> Result<Self> {
        let object = || format!("{count} buffers of {size} bytes");
        let invalid = || OsError::from_errno("mmap", object(), libc::EINVAL);
        let size = size.checked_next_multiple_of(ALIGNMENT).ok_or_else(invalid)?;
        let len = size.checked_mul(count).filter(|len| *len > 0).ok_or_else(invalid)?;
        let room = memory::room();
        if room.bytes < len as u64 {
            let object = format!("{}; {} leaves {} bytes", object(), room.limit, room.bytes);
            return Err(OsError::from_errno("mmap", object, libc::ENOMEM));
        }
        let options = Options { prefault: true, ..Options::default() };
        let (memory, degraded) = Mapping::anonymous(len, options)?;
        if let Some(error) = degraded.prefault {
            return Err(error);
        }
        let free = (0..count.div_ceil(64)).map(|word| {
            let bits = (count - word * 64).min(64);
            AtomicU64::new(u64::MAX >> (64 - bits))
        });
        Ok(Self(Arc::new(BufferMemory { memory, count, size, free: free.collect() })))
    }

    /// A buffer that nobody holds, with whatever its last holder left in it; `None` if there is
    /// none. From any thread.
    #[must_use]
    pub fn take(&self) -> Option<Buffer> {
        for (at, word) in self.0.free.iter().enumerate() {
            let take = |bits: u64| (bits != 0).then(|| bits & (bits - 1));
            // Acquire: what the last holder did with the buffer happened before.
            if let Ok(bits) = word.fetch_update(Ordering::Acquire, Ordering::Relaxed, take) {
                let index = at * 64 + bits.trailing_zeros() as usize;
                return Some(Buffer { region: Arc::clone(&self.0), index });
            }
        }
        None
    }

    /// How many there are, taken or not.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count
    }

    /// Bytes of each.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// All of the memory, for registering it with the kernel.
    pub(super) fn memory(&self) -> (*mut u8, usize) {
        (self.0.memory.as_ptr(), self.0.size * self.0.count)
    }

    /// Where the buffer begins in the memory; `None` if it is not one of these.
    pub(super) fn offset_of(&self, buffer: &Buffer) -> Option<usize> {
        Arc::ptr_eq(&self.0, &buffer.region).then(|| buffer.index * self.0.size)
    }
}

impl Buffer {
    fn start(&self) -> NonNull<u8> {
        // SAFETY: the index is less than the count, so this is inside the mapping.
        unsafe { self.region.memory.as_non_null().add(self.index * self.region.size) }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped while the region lives and initialised (zero at first). Its
        // free bit is clear while this value exists, so no other `Buffer` has this index, and the
        // borrow of `self` keeps the holder from writing.
        unsafe { slice::from_raw_parts(self.start().as_ptr(), self.region.size) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start().as_ptr(), self.region.size) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(word) = self.region.free.get(self.index / 64) {
            // Release: the next holder sees what was done with it.
            word.fetch_or(1 << (self.index % 64), Ordering::Release);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer {} of {}", self.index, self.region.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn each_buffer_has_one_holder() {
        let buffers = Buffers::new(70, 1).unwrap();
        assert_eq!((buffers.count(), buffers.size()), (70, ALIGNMENT));
        let mut taken: Vec<Buffer> = std::iter::from_fn(|| buffers.take()).collect();
        assert_eq!(taken.len(), 70);
        for (number, buffer) in taken.iter_mut().enumerate() {
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(buffer.len(), ALIGNMENT);
            let last = ALIGNMENT - 1;
            (buffer[0], buffer[last]) = (number as u8, number as u8);
        }
        for (number, buffer) in taken.iter().enumerate() {
            let (first, last) = (buffer.first(), buffer.last());
            assert_eq!((first, last), (Some(&(number as u8)), Some(&(number as u8))));
        }
        let given_back = taken.remove(66).as_ptr();
        assert_eq!(buffers.take().map(|buffer| buffer.as_ptr()), Some(given_back));
    }

    #[test]
    fn a_buffer_outlives_its_buffers() {
        let mut buffer = Buffers::new(2, ALIGNMENT).unwrap().take().unwrap();
        buffer.fill(9);
        assert_eq!(buffer.last(), Some(&9));
    }

    #[test]
    fn threads_share_buffers() {
        let buffers = Buffers::new(3, ALIGNMENT).unwrap();
        thread::scope(|scope| {
            for thread in 0..4_u8 {
                let buffers = &buffers;
                scope.spawn(move || {
                    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
                        let Some(mut buffer) = buffers.take() else { continue };
                        buffer[..64].fill(thread);
                        assert!(buffer[..64].iter().all(|byte| *byte == thread));
                    }
                });
            }
        });
        assert_eq!(std::iter::from_fn(|| buffers.take()).collect::<Vec<_>>().len(), 3);
    }

    #[test]
    fn impossible_len() {
        for (count, size) in [(0, 4096), (4, 0), (usize::MAX, 4096), (1, usize::MAX)] {
            let error = Buffers::new(count, size).unwrap_err();
            assert_eq!(error.errno(), Some(libc::EINVAL), "{count} {size}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has memory without end")]
    fn too_much_memory_is_refused_before_it_is_taken() {
        let error = Buffers::new(1 << 20, 1 << 30).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOMEM));
        assert!(error.to_string().contains("leaves"), "{error}");
    }
}
