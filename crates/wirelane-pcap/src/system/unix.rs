//! Unix. Some calls exist only on Linux.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Gid, Mode, OFlags, fchmod, fchown, link, unlink};
use rustix::io::Errno;

pub(crate) use std::os::fd::AsFd;

pub(crate) fn standard_input() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

pub(crate) fn standard_output() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

pub(crate) fn is_fifo(kind: FileType) -> bool {
    kind.is_fifo()
}

/// Whether a file of this kind has a reader.
pub(crate) fn is_read(kind: FileType) -> bool {
    kind.is_fifo() || kind.is_socket()
}

/// Device and inode of a file that holds data; `None` for a pipe or a terminal.
pub(crate) fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    let kind = metadata.file_type();
    let holds = kind.is_file() || kind.is_block_device();
    holds.then(|| (metadata.dev(), metadata.ino()))
}

/// Sets the permissions of a new file.
pub(crate) fn set_mode(options: &mut OpenOptions, mode: u32) {
    options.mode(mode);
}

/// Makes opening a FIFO and reading from it return at once.
pub(crate) fn set_nonblocking(options: &mut OpenOptions) {
    options.custom_flags(OFlags::NONBLOCK.bits() as i32);
}

/// Whether opening a FIFO failed because it has no reader.
pub(crate) fn has_no_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NXIO.raw_os_error())
}

/// Sets the group of a file, if any, and its permissions.
pub(crate) fn set_access(file: impl AsFd, group: Option<u32>, mode: u32) -> io::Result<()> {
    // In this order: chown(2) may clear permissions, and the old group must not get the permissions
    // of the new one.
    if let Some(group) = group {
        fchown(&file, None, Some(Gid::from_raw(group)))?;
    }
    // The umask reduces the mode of open(2).
    Ok(fchmod(&file, Mode::from_raw_mode(mode as rustix::fs::RawMode))?)
}

/// Renames a file without replacing another one: NFS and some other file systems support that only
/// by a second link.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rename_without_replacing(from, to) {
        Err(Errno::INVAL | Errno::NOSYS) => link(from, to).and_then(|()| unlink(from))?,
        outcome => outcome?,
    }
    Ok(())
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn rename_without_replacing(from: &Path, to: &Path) -> rustix::io::Result<()> {
    use rustix::fs::{RenameFlags, renameat_with};
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn rename_without_replacing(_from: &Path, _to: &Path) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}

/// Waits for data, for `longest` at most. Returns false at the timeout. The next read reports
/// errors of the file.
pub(crate) fn wait_to_read(file: &File, longest: Duration) -> Option<bool> {
    wait(file, PollFlags::IN, longest)
}

/// As [`wait_to_read`], for room.
pub(crate) fn wait_to_write(file: &File, longest: Duration) -> Option<bool> {
    wait(file, PollFlags::OUT, longest)
}

/// `None` if a signal interrupted the wait.
fn wait(file: &File, event: PollFlags, longest: Duration) -> Option<bool> {
    let mut ready = [PollFd::new(file, event)];
    match poll(&mut ready, Timespec::try_from(longest).ok().as_ref()) {
        Ok(0) => Some(false),
        Err(Errno::INTR) => None,
        Ok(_) | Err(_) => Some(true),
    }
}

/// The number of bytes that a pipe accepts at once, if it is empty and has no other writer; `None`
/// if it is not empty, or no pipe.
#[cfg(target_os = "linux")]
pub(crate) fn empty_pipe(file: &File) -> Option<usize> {
    let size = rustix::pipe::fcntl_getpipe_size(file).ok()?;
    (rustix::io::ioctl_fionread(file) == Ok(0)).then_some(size)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn empty_pipe(_file: &File) -> Option<usize> {
    None
}

/// Symbolic names of the errors of opening, reading and writing files.
pub(crate) fn symbol(number: i32) -> Option<&'static str> {
    let known = [
        (Errno::ACCESS, "EACCES"),
        (Errno::DQUOT, "EDQUOT"),
        (Errno::EXIST, "EEXIST"),
        (Errno::FBIG, "EFBIG"),
        (Errno::IO, "EIO"),
        (Errno::ISDIR, "EISDIR"),
        (Errno::LOOP, "ELOOP"),
        (Errno::MFILE, "EMFILE"),
        (Errno::NAMETOOLONG, "ENAMETOOLONG"),
        (Errno::NOENT, "ENOENT"),
        (Errno::NOSPC, "ENOSPC"),
        (Errno::NOTDIR, "ENOTDIR"),
        (Errno::NXIO, "ENXIO"),
        (Errno::PERM, "EPERM"),
        (Errno::ROFS, "EROFS"),
        (Errno::TXTBSY, "ETXTBSY"),
    ];
    known.iter().find(|(errno, _)| errno.raw_os_error() == number).map(|(_, name)| *name)
}
