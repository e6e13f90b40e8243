//! Files that grow by large blocks, and small ones of the kernel's.

use crate::error::{OsError, Result};
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, openat};
use rustix::io::{Errno, read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// Reserves space for `len` bytes from `offset` without changing the file's size, so that a disk
/// found full is found full now, and blocks lie together. False when the file system cannot.
///
/// # Errors
/// `ENOSPC`, `EDQUOT`, `EFBIG` and what else fallocate(2) gives.
pub fn preallocate(file: impl AsFd, offset: u64, len: u64) -> Result<bool> {
    let fd = file.as_fd();
    match rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, offset, len) {
        Ok(()) => Ok(true),
        // No file system support, or a pipe or device.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::SPIPE | Errno::NODEV) => Ok(false),
        Err(errno) => {
            let object = format!("fd {}, {len} bytes", fd.as_raw_fd());
            Err(OsError::new("fallocate", object, errno))
        }
    }
}

/// The text of a small file of the kernel's, as in /proc. Such a file has no size, so that
/// `std::fs` asks for it in many small pieces.
///
/// # Errors
/// What open(2) and read(2) give; `EILSEQ` for what is no text.
pub fn small(path: impl AsRef<Path>) -> rustix::io::Result<String> {
    small_in(CWD, path)
}

/// As [`small`], of a file in a directory.
///
/// # Errors
/// As there.
pub fn small_in(directory: impl AsFd, path: impl AsRef<Path>) -> rustix::io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(directory, path.as_ref(), flags, Mode::empty())?;
    let mut contents = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match read(&file, &mut buffer) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok(0) => return String::from_utf8(contents).map_err(|_| Errno::ILSEQ),
            Ok(length) => contents.extend_from_slice(buffer.get(..length).unwrap_or_default()),
        }
    }
}

/// How many bytes a pipe takes in one piece, if it is empty and has no other writer; `None` if it
/// is not empty, or no pipe.
#[must_use]
pub fn empty_pipe(file: impl AsFd) -> Option<usize> {
    let fd = file.as_fd();
    // SAFETY: the call takes numbers and changes nothing.
    let size = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETPIPE_SZ) };
    let size = usize::try_from(size).ok()?;
    (rustix::io::ioctl_fionread(fd) == Ok(0)).then_some(size)
}

/// Lets a pipe hold so many bytes, as far as the system allows that (`pipe-max-size`, see proc(5)).
pub fn enlarge_pipe(file: impl AsFd, bytes: u32) {
    let size = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the call takes numbers. What it refuses leaves the pipe as it is.
    let _ = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETPIPE_SZ, size) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn preallocate_keeps_the_size() {
        let path = std::path::PathBuf::from(format!("/dev/shm/wirelane-os-{}", std::process::id()));
        let file = File::create(&path).unwrap();
        assert!(preallocate(&file, 0, 1 << 20).unwrap());
        let metadata = file.metadata().unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(metadata.len(), 0);
        assert_eq!(metadata.blocks(), (1 << 20) / 512);
    }

    #[test]
    fn small_files_are_read_whole() {
        let path = std::env::temp_dir().join(format!("wirelane-os-small-{}", std::process::id()));
        let text = "0123456789".repeat(1000);
        for text in ["", &text] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(small(&path).unwrap(), text);
        }
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(small(&path), Err(Errno::ILSEQ));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(small(&path), Err(Errno::NOENT));
        assert!(small("/proc/self/status").unwrap().contains("PPid:"));
    }

    #[test]
    fn an_empty_pipe_takes_what_it_holds_at_once() {
        use std::io::Write;
        let (reader, mut writer) = std::io::pipe().unwrap();
        let size = empty_pipe(&writer).unwrap();
        // It would not come back if the pipe were full before the end.
        assert_eq!(writer.write(&vec![0; size]).unwrap(), size);
        assert_eq!(empty_pipe(&writer), None);
        drop(reader);
        assert_eq!(empty_pipe(File::open("/dev/null").unwrap()), None);
    }

    #[test]
    fn a_pipe_holds_as_much_as_it_is_told_to() {
        let (_reader, writer) = std::io::pipe().unwrap();
        enlarge_pipe(&writer, 256 << 10);
        assert_eq!(empty_pipe(&writer), Some(256 << 10));
        // More than anybody gets: nothing changes.
        enlarge_pipe(&writer, u32::MAX);
        assert_eq!(empty_pipe(&writer), Some(256 << 10));
    }

    #[test]
    fn preallocate_where_it_cannot_be() {
        let null = File::options().write(true).open("/dev/null").unwrap();
        assert!(!preallocate(&null, 0, 4096).unwrap());
        let read_only = File::open("/proc/self/exe").unwrap();
        assert_eq!(preallocate(&read_only, 0, 1).unwrap_err().errno(), Some(libc::EBADF));
    }
}
