//! Names of network namespaces, as used by `ip netns`: files of `/run/netns` on which a namespace
//! is mounted.
//!
//! A name made here differs from a name of `ip netns add` in one point: the file below the mount
//! contains its owner instead of being empty. Where the file system supports unnamed files, the
//! file and its contents appear in one step, so the owner is known even without a namespace on the
//! file (the owner was killed, or the namespace unmounted).

use std::fs::{DirBuilder, File, Permissions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, linkat, openat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{
    MountPropagationFlags, UnmountFlags, mount_bind, mount_bind_recursive, mount_change, unmount,
};

use super::nsfs::{is_network_namespace, on_nsfs};
use crate::error::{OsError, Result};

/// The directory of the names (`NETNS_RUN_DIR` of iproute2).
pub const DIRECTORY: &str = "/run/netns";

/// The meaning of a name.
#[derive(Debug)]
pub enum NameMeaning {
    /// No file has this name.
    Absent,
    /// A network namespace.
    Namespace(OwnedFd),
    /// A file without a namespace on it, and the beginning of its contents.
    File(Vec<u8>),
    /// Another kind of file, such as a directory, or a namespace of another kind.
    Other,
}

/// The path of a name.
///
/// # Errors
/// `EINVAL` for a name that is no plain file name.
pub fn path(name: &str) -> Result<PathBuf> {
    if name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".." {
        return Err(OsError::from_errno("open", format!("netns {name:?}"), libc::EINVAL));
    }
    Ok(Path::new(DIRECTORY).join(name))
}

/// All names, sorted; none if the directory does not exist.
///
/// # Errors
/// The errors of readdir(3).
pub fn list() -> Result<Vec<String>> {
    let failed = |error| OsError::new("readdir", DIRECTORY, error);
    let entries = match std::fs::read_dir(DIRECTORY) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        // Our names are always text.
        names.extend(entry.map_err(failed)?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// Looks up the current meaning of `name`.
///
/// # Errors
/// As [`path`], and the errors of open(2).
pub fn look(name: &str) -> Result<NameMeaning> {
    let path = path(name)?;
    let failed = |call| move |errno: Errno| OsError::new(call, name, errno);
    // The open must not block or follow a link.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match openat(CWD, &path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(NameMeaning::Absent),
        Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => return Ok(NameMeaning::Other),
        file => file.map_err(failed("open"))?,
    };
    if is_network_namespace(&file) {
        return Ok(NameMeaning::Namespace(file));
    }
    let status = rustix::fs::fstat(&file).map_err(failed("fstat"))?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || on_nsfs(&file) {
        return Ok(NameMeaning::Other);
    }
    let mut contents = Vec::new();
    File::from(file)
        .take(LONGEST)
        .read_to_end(&mut contents)
        .map_err(|error| OsError::new("read", name, error))?;
    Ok(NameMeaning::File(contents))
}

/// A lock on changing names, which excludes other users of this module, and `ip netns add` while it
/// prepares the directory. The kernel releases it when the process ends.
#[derive(Debug)]
pub struct NamesLock {
    directory: File,
}

impl NamesLock {
    /// Waits until no other process changes names.
    ///
    /// # Errors
    /// `EACCES` for an ordinary user when the directory does not exist; the errors of flock(2).
    pub fn lock() -> Result<NamesLock> {
        match DirBuilder::new().mode(0o755).create(DIRECTORY) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(OsError::new("mkdir", DIRECTORY, error));
            }
            _ => {}
        }
        let directory =
            File::open(DIRECTORY).map_err(|error| OsError::new("open", DIRECTORY, error))?;
        directory.lock().map_err(|error| OsError::new("flock", DIRECTORY, error))?;
        Ok(NamesLock { directory })
    }

    /// Gives a namespace the name `name`. `mark` becomes the contents of the file below it;
    /// [`look`] reads at most 256 bytes of it.
    ///
    /// # Errors
    /// `EEXIST` when the name exists, `EPERM` without CAP_SYS_ADMIN, and as [`path`].
    pub fn give(&self, name: &str, namespace: impl AsFd, mark: &str) -> Result<()> {
        let path = path(name)?;
        self.share()?;
        self.place(name, mark)?;
        let source = format!("/proc/self/fd/{}", namespace.as_fd().as_raw_fd());
        mount_bind(source, &path).map_err(|errno| {
            // We made the file, and nothing is mounted on it.
            let _ = std::fs::remove_file(&path);
            OsError::new("mount MS_BIND", name, errno)
        })
    }

    /// Unmounts the namespace from a name, which stays as a file.
    ///
    /// # Errors
    /// `EINVAL` when no namespace is mounted on it, `EPERM` without CAP_SYS_ADMIN, and as [`path`].
    pub fn unmount(&self, name: &str) -> Result<()> {
        unmount(path(name)?, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .map_err(|errno| OsError::new("umount", name, errno))
    }

    /// Removes the file of a name without a namespace. The kernel also detaches mounts on the file
    /// in other mount namespaces.
    ///
    /// # Errors
    /// `EBUSY` when a file system is mounted on it, the errors of unlink(2), and as [`path`].
    pub fn remove(&self, name: &str) -> Result<()> {
        unlinkat(CWD, path(name)?, AtFlags::empty())
            .map_err(|errno| OsError::new("unlink", name, errno))
    }

    /// Makes the directory a shared mount, as `ip netns add` does. This must precede the first
    /// name: otherwise the first `ip netns add` covers earlier mounts, which become unreachable.
    fn share(&self) -> Result<()> {
        let shared = || mount_change(DIRECTORY, MountPropagationFlags::SHARED);
        match shared() {
            // The directory is not a mount yet.
            Err(Errno::INVAL) => mount_bind_recursive(DIRECTORY, DIRECTORY)
                .map_err(|errno| OsError::new("mount MS_BIND", DIRECTORY, errno))?,
            outcome => {
                return outcome.map_err(|errno| OsError::new("mount MS_SHARED", DIRECTORY, errno));
            }
        }
        shared().map_err(|errno| OsError::new("mount MS_SHARED", DIRECTORY, errno))
    }

    /// Creates the file with its contents.
    fn place(&self, name: &str, mark: &str) -> Result<()> {
        let path = path(name)?;
        let failed = |call| move |error: std::io::Error| OsError::new(call, name, error);
        // The mount over the directory may have changed since the lock was taken.
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o444);
        let (file, unnamed) = match openat(CWD, DIRECTORY, flags | OFlags::TMPFILE, mode) {
            Ok(file) => (file, true),
            // This file system has no unnamed files. If this process is killed here, the remaining
            // file looks like a file that a killed `ip netns add` leaves, so no cleanup touches it.
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
                let flags = flags | OFlags::CREATE | OFlags::EXCL;
                let made = openat(CWD, &path, flags, mode);
                (made.map_err(|errno| failed("open O_EXCL")(errno.into()))?, false)
            }
            Err(errno) => return Err(failed("open O_TMPFILE")(errno.into())),
        };
        let mut file = File::from(file);
        file.write_all(mark.as_bytes()).map_err(failed("write"))?;
        // Readable by all users, whatever the umask: the owner's mark is no secret.
        file.set_permissions(Permissions::from_mode(0o444)).map_err(failed("fchmod"))?;
        if unnamed {
            let source = format!("/proc/self/fd/{}", file.as_raw_fd());
            linkat(CWD, source, CWD, &path, AtFlags::SYMLINK_FOLLOW)
                .map_err(|errno| failed("link")(errno.into()))?;
        }
        Ok(())
    }
}

impl Drop for NamesLock {
    fn drop(&mut self) {
        // Closing it would be enough, unless a child has a copy of the descriptor.
        let _ = self.directory.unlock();
    }
}

/// A mark is one line.
const LONGEST: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{netns, testing};

    /// A name that is unique to a test.
    fn name(what: &str) -> String {
        format!("wl-{}-{what}", std::process::id())
    }

    #[test]
    fn what_cannot_be_a_name_is_refused() {
        for name in ["", ".", "..", "a/b", "/", "a\0"] {
            assert_eq!(path(name).unwrap_err().errno(), Some(libc::EINVAL), "{name:?}");
        }
        assert!(matches!(look(&name("none")).unwrap(), NameMeaning::Absent));
    }

    #[test]
    fn privileged_a_name_is_given_once_and_taken_away() {
        testing::in_new_namespace(|| {
            let name = name("give");
            let here = netns::current().unwrap();
            let names = NamesLock::lock().unwrap();
            names.give(&name, &here, "a mark").unwrap();
            let NameMeaning::Namespace(found) = look(&name).unwrap() else {
                panic!("no namespace")
            };
            assert!(netns::same(&found, &here).unwrap());
            assert!(list().unwrap().contains(&name));
            assert_eq!(names.give(&name, &here, "2").unwrap_err().errno(), Some(libc::EEXIST));
            assert_eq!(names.remove(&name).unwrap_err().errno(), Some(libc::EBUSY));
            names.unmount(&name).unwrap();
            let NameMeaning::File(mark) = look(&name).unwrap() else { panic!("no file") };
            assert_eq!(mark, b"a mark");
            assert_eq!(names.unmount(&name).unwrap_err().errno(), Some(libc::EINVAL));
            names.remove(&name).unwrap();
            assert!(matches!(look(&name).unwrap(), NameMeaning::Absent));
        });
    }

    #[test]
    fn privileged_other_things_are_told_apart() {
        testing::in_new_namespace(|| {
            let names = NamesLock::lock().unwrap();
            let name = name("other");
            let path = path(&name).unwrap();
            std::os::unix::fs::symlink("/proc/self/ns/net", &path).unwrap();
            assert!(matches!(look(&name).unwrap(), NameMeaning::Other), "a link is not followed");
            names.remove(&name).unwrap();
            std::fs::create_dir(&path).unwrap();
            assert!(matches!(look(&name).unwrap(), NameMeaning::Other));
            std::fs::remove_dir(&path).unwrap();
            // A namespace of another kind.
            names.place(&name, "").unwrap();
            mount_bind("/proc/self/ns/uts", &path).unwrap();
            let found = look(&name).unwrap();
            names.unmount(&name).unwrap();
            names.remove(&name).unwrap();
            assert!(matches!(found, NameMeaning::Other), "{found:?}");
        });
    }
}
