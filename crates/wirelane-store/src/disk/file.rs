//! Files that are written past the page cache, and the space of their file system.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, StatxFlags, fallocate, fchmod, fcntl_getfl, fcntl_setfl,
    fstatfs, fstatvfs, ftruncate, openat, statx, unlinkat,
};
use rustix::io::Errno;
use wirelane_os::{OsError, Result};

/// What offsets, lengths and memory of direct I/O are multiples of here, in bytes: the largest
/// logical block of today's disks.
pub const ALIGNMENT: usize = 4096;

/// A file that [`create`] made.
#[derive(Debug)]
pub struct NewFile {
    /// It, open for reading and writing.
    pub file: File,
    /// Whether writes bypass the page cache, and if not, why.
    pub direct: std::result::Result<(), String>,
    /// Whether its blocks are reserved. Otherwise the disk may be found full later, and the file is
    /// a hole.
    pub preallocated: bool,
}

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All of it.
    pub total: u64,
    /// What this process may still use. Root may use more than others.
    pub available: u64,
}

/// Creates the file `name` in `directory`, `size` bytes long from the start and with its blocks
/// reserved: a direct write that makes a file longer would wait for those before it. Its
/// permissions are `mode`, whatever the umask says. It does not follow a link, and a file that
/// exists is an error. After an error there is none.
///
/// # Errors
/// `EEXIST`, `ENOSPC` and what else open(2), fallocate(2) and ftruncate(2) give.
pub fn create(directory: impl AsFd, name: &Path, mode: u32, size: u64) -> Result<NewFile> {
    let directory = directory.as_fd();
    let object = || name.display().to_string();
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::from_raw_mode(mode);
    let file = openat(directory, name, flags, mode)
        .map(File::from)
        .map_err(|errno| OsError::new("openat", object(), errno))?;
    let prepare = || {
        fchmod(&file, mode).map_err(|errno| OsError::new("fchmod", object(), errno))?;
        reserve(&file, size).map_err(|(call, errno)| OsError::new(call, object(), errno))
    };
    let preallocated = prepare().inspect_err(|_| {
        // The first error is the one to tell.
        let _ = unlinkat(directory, name, AtFlags::empty());
    })?;
    let direct = make_direct(&file);
    Ok(NewFile { file, direct, preallocated })
}

/// How much space the file system of this file or directory has.
///
/// # Errors
/// What fstatvfs(3) gives.
pub fn space(file: impl AsFd) -> Result<Space> {
    let found = fstatvfs(file).map_err(|errno| OsError::new("fstatvfs", "", errno))?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Ok(Space { total: bytes(found.f_blocks), available: bytes(found.f_bavail) })
}

/// False if the file system cannot reserve.
fn reserve(file: &File, size: u64) -> std::result::Result<bool, (&'static str, Errno)> {
    loop {
        match fallocate(file, FallocateFlags::empty(), 0, size) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => break,
            Err(errno) => return Err(("fallocate", errno)),
        }
    }
    ftruncate(file, size).map_err(|errno| ("ftruncate", errno))?;
    Ok(false)
}

/// Lets reads and writes of multiples of [`ALIGNMENT`], from and to memory aligned so, bypass the
/// page cache: sets `O_DIRECT`. For what is opened already: a file system that refuses the flag in
/// open(2) may have created the file before.
///
/// # Errors
/// Why not; the file can be used as before.
pub fn make_direct(file: &File) -> std::result::Result<(), String> {
    // TMPFS_MAGIC. It accepts the flag (Linux 6.6), but the page cache is all that it has.
    if fstatfs(file).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC) {
        return Err("tmpfs keeps files in memory".into());
    }
    // Linux 6.1. File systems that do not answer do not set the flag.
    if let Ok(found) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && found.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        let (memory, offset) = (found.stx_dio_mem_align, found.stx_dio_offset_align);
        if memory == 0 || offset == 0 {
            return Err("the file system has no direct I/O for this file".into());
        }
        if memory.max(offset) > ALIGNMENT as u32 {
            let most = memory.max(offset);
            return Err(format!("direct I/O needs an alignment of {most} bytes here"));
        }
    }
    let set = fcntl_getfl(file).and_then(|flags| fcntl_setfl(file, flags | OFlags::DIRECT));
    set.map_err(|errno| format!("the file system has no direct I/O: {}", io::Error::from(errno)))
}

/// Undoes [`make_direct`], for a file system that refuses reads after all.
///
/// # Errors
/// What fcntl(2) gives.
pub fn make_buffered(file: &File) -> Result<()> {
    fcntl_getfl(file)
        .and_then(|flags| fcntl_setfl(file, flags - OFlags::DIRECT))
        .map_err(|errno| OsError::new("fcntl", "F_SETFL", errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::testing::Scratch;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn a_new_file_has_its_size_and_its_blocks() {
        let scratch = Scratch::on_disk();
        let name = Path::new("a");
        let new = create(scratch.directory(), name, 0o640, 1 << 20).unwrap();
        let metadata = new.file.metadata().unwrap();
        assert_eq!((metadata.len(), metadata.mode() & 0o7777), (1 << 20, 0o640));
        assert_eq!(new.preallocated, metadata.blocks() >= (1 << 20) / 512);
        let again = create(scratch.directory(), name, 0o600, 0).unwrap_err();
        assert_eq!((again.call, again.errno()), ("openat", Some(libc::EEXIST)));
    }

    #[test]
    fn a_link_is_not_followed() {
        let scratch = Scratch::on_disk();
        std::os::unix::fs::symlink("elsewhere", scratch.path().join("a")).unwrap();
        let error = create(scratch.directory(), Path::new("a"), 0o600, 4096).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EEXIST));
        assert!(!scratch.path().join("elsewhere").exists());
    }

    #[test]
    fn tmpfs_is_written_through_the_page_cache_and_says_so() {
        let scratch = Scratch::in_memory();
        let new = create(scratch.directory(), Path::new("a"), 0o600, 4096).unwrap();
        assert_eq!(new.direct, Err("tmpfs keeps files in memory".into()));
        new.file.write_all_at(b"unaligned", 3).unwrap();
    }

    #[test]
    fn a_file_that_is_direct_can_be_read_in_parts_once_it_is_buffered_again() {
        let scratch = Scratch::on_disk();
        let path = scratch.path().join("a");
        std::fs::write(&path, vec![7; 2 * ALIGNMENT]).unwrap();
        let file = File::open(&path).unwrap();
        let direct = make_direct(&file);
        make_buffered(&file).unwrap();
        let mut bytes = [0; 100];
        file.read_exact_at(&mut bytes, 17).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7), "{direct:?}");
    }

    #[test]
    fn what_cannot_be_reserved_is_not_left_behind() {
        let scratch = Scratch::in_memory();
        let total = space(scratch.directory()).unwrap().total;
        let error = create(scratch.directory(), Path::new("a"), 0o600, total * 2).unwrap_err();
        assert_eq!((error.call, error.errno()), ("fallocate", Some(libc::ENOSPC)));
        assert!(!scratch.path().join("a").exists());
    }

    #[test]
    fn space_is_what_others_see() {
        let found = space(File::open("/").unwrap()).unwrap();
        assert!(found.total > 0 && found.available <= found.total, "{found:?}");
        // No file system of blocks.
        assert_eq!(space(File::open("/proc").unwrap()).unwrap(), Space { total: 0, available: 0 });
    }
}
