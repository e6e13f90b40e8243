//! An io_uring that writes.
#![allow(unsafe_code)]

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use wirelane_os::{OsError, Result};

use super::buffers::{Buffer, Buffers};

/// The most bytes that the kernel registers as one piece (io_buffer_validate() in io_uring/rsrc.c).
const MAX_PIECE: usize = 1 << 30;

/// The most writes at once.
pub(super) const MAX_DEPTH: usize = 4096;

/// What the kernel finished: the number that a write was given, and bytes, or a negative errno.
pub(super) type Completion = (u64, i32);

pub(super) struct WriteRing {
    ring: IoUring,
    registered: Option<Registered>,
}

/// Memory that the kernel has pinned, in pieces of whole buffers.
struct Registered {
    buffers: Buffers,
    piece: usize,
}

impl WriteRing {
    /// A ring for up to `depth` writes at once. The memory is not registered.
    pub(super) fn new(depth: u32) -> Result<Self> {
        match IoUring::builder().dontfork().build(depth) {
            Ok(ring) => Ok(Self { ring, registered: None }),
            Err(error) => {
                let object =
                    if error.raw_os_error() == Some(libc::EPERM) { forbidden() } else { "" };
                Err(OsError::new("io_uring_setup", object, error))
            }
        }
    }

    /// Has the kernel pin the memory once, instead of at each write.
    pub(super) fn register(&mut self, buffers: &Buffers) -> Result<()> {
        let (start, len) = buffers.memory();
        let piece = MAX_PIECE / buffers.size() * buffers.size();
        let error = |source| OsError::new("io_uring_register", format!("{len} bytes"), source);
        if piece == 0 {
            return Err(error(io::Error::from_raw_os_error(libc::EFBIG)));
        }
        let pieces: Vec<_> = (0..len)
            .step_by(piece)
            .map(|at| libc::iovec {
                iov_base: start.wrapping_add(at).cast(),
                iov_len: piece.min(len - at),
            })
            .collect();
        // SAFETY: the pieces are mapped, and stay so while `registered` holds the buffers.
        // Registering neither reads nor writes them.
        unsafe { self.ring.submitter().register_buffers(&pieces) }.map_err(error)?;
        self.registered = Some(Registered { buffers: buffers.clone(), piece });
        Ok(())
    }

    /// Keeps this file open until the last write is finished, even after the process has ended.
    pub(super) fn keep_open(&self, file: &impl AsRawFd) -> Result<()> {
        let registered = self.ring.submitter().register_files(&[file.as_raw_fd()]);
        registered.map_err(|source| OsError::new("io_uring_register", "a file", source))
    }

    /// Lets go of the file that [`WriteRing::keep_open`] was given. The kernel frees a ring some
    /// time after it is closed.
    pub(super) fn let_go(&self) {
        // There may be none.
        let _ = self.ring.submitter().unregister_files();
    }

    /// Queues a write of `buffer[from..to]`. False if there is no room for it.
    ///
    /// # Safety
    /// `buffer` and `fd` must not change before the kernel has finished the write, which
    /// [`WriteRing::completion`] reports by `number`.
    #[must_use]
    pub(super) unsafe fn push(
        &mut self,
        fd: &impl AsRawFd,
        buffer: &Buffer,
        (from, to): (usize, usize),
        offset: u64,
        number: u64,
    ) -> bool {
        let Some(bytes) = buffer.get(from..to) else { return false };
        let (fd, start, len) =
            (Fd(fd.as_raw_fd()), bytes.as_ptr(), bytes.len().min(MAX_PIECE) as u32);
        let entry: squeue::Entry = match self.piece_of(buffer) {
            Some(piece) => opcode::WriteFixed::new(fd, start, len, piece).offset(offset).build(),
            None => opcode::Write::new(fd, start, len).offset(offset).build(),
        };
        // SAFETY: the caller keeps memory and descriptor.
        unsafe { self.ring.submission().push(&entry.user_data(number)) }.is_ok()
    }

    /// Hands what is queued to the kernel, and waits until something is finished, at most so long.
    pub(super) fn enter(&mut self, wait: Duration) -> io::Result<()> {
        if wait.is_zero() && self.ring.submission().is_empty() {
            return Ok(());
        }
        let submitter = self.ring.submitter();
        let result = if wait.is_zero() {
            submitter.submit()
        } else if self.ring.params().is_feature_ext_arg() {
            let time = Timespec::from(wait.min(Duration::from_secs(3600)));
            submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
        } else {
            // Before Linux 5.11 it cannot stop waiting; a write ends some time.
            submitter.submit_and_wait(1)
        };
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// The next finished write.
    pub(super) fn completion(&mut self) -> Option<Completion> {
        self.ring.completion().next().map(|entry| (entry.user_data(), entry.result()))
    }

    /// Which registered piece holds it.
    fn piece_of(&self, buffer: &Buffer) -> Option<u16> {
        let registered = self.registered.as_ref()?;
        let offset = registered.buffers.offset_of(buffer)?;
        u16::try_from(offset / registered.piece).ok()
    }
}

/// Rings that are set up before privileges are given away.
///
/// The kernel counts registered memory against RLIMIT_MEMLOCK of whoever set a ring up, unless that
/// one had CAP_IPC_LOCK (io_uring_create() in io_uring/io_uring.c).
#[derive(Clone, Default)]
pub struct Rings(Arc<Mutex<Vec<WriteRing>>>);

impl Rings {
    /// So many, for writers of up to `depth` writes at once. Where there are fewer, writers that
    /// are made later say why.
    #[must_use]
    pub fn prepare(count: usize, depth: usize) -> Self {
        let rings = (0..count).map_while(|_| WriteRing::new(depth.clamp(1, MAX_DEPTH) as u32).ok());
        Self(Arc::new(Mutex::new(rings.collect())))
    }

    /// One of them that is large enough.
    pub(super) fn take(&self, depth: usize) -> Option<WriteRing> {
        let mut rings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rings.pop_if(|ring| ring.ring.params().sq_entries() as usize >= depth)
    }
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.lock().unwrap_or_else(PoisonError::into_inner).len();
        write!(f, "Rings({count})")
    }
}

/// What forbids io_uring: a setting (Linux 6.6), or a filter of system calls.
fn forbidden() -> &'static str {
    match fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default().trim() {
        "1" => "kernel.io_uring_disabled is 1",
        "2" => "kernel.io_uring_disabled is 2",
        _ => "seccomp filter",
    }
}
