//! Network namespaces of threads; [`names`] handles their names.

pub mod names;
mod nsfs;

pub use nsfs::is_network_namespace;

use crate::error::{OsError, Result};
use crate::iface;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::fs::File;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// Moves the calling thread to a new, empty network namespace (a `lo` that is down). The namespace
/// ends with its last thread, socket and descriptor.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn unshare_net() -> Result<()> {
    // SAFETY: CLONE_NEWNET unshares no file descriptors and no memory, which is what can be
    // unsound.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|errno| OsError::new("unshare", "CLONE_NEWNET", errno))
}

/// The calling thread's network namespace.
///
/// # Errors
/// The errors of open(2), when /proc is not mounted.
pub fn current() -> Result<OwnedFd> {
    open(Path::new("/proc/thread-self/ns/net"))
}

/// A new network namespace for other threads to enter, with `lo` up. It ends with the descriptor
/// and its last socket or thread, also when the process is killed.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN.
pub fn anonymous() -> Result<OwnedFd> {
    // Only a thread in a namespace can configure it. A separate thread, which then ends, cannot
    // remain in the wrong one.
    let make = || {
        unshare_net()?;
        iface::up("lo")?;
        current()
    };
    let thread = std::thread::Builder::new().spawn(make);
    let thread = thread.map_err(|error| OsError::new("clone", "a thread", error))?;
    thread.join().unwrap_or_else(|_| Err(OsError::from_errno("unshare", "a thread", libc::EIO)))
}

/// The namespace named `name` by `ip netns`.
///
/// # Errors
/// `ENOENT` when it does not exist, `EINVAL` for a name that is no plain file name.
pub fn named(name: &str) -> Result<OwnedFd> {
    open(&names::path(name)?)
}

/// Moves the calling thread to a namespace until the guard is dropped.
///
/// # Errors
/// `EPERM` without CAP_SYS_ADMIN, `EINVAL` for the descriptor of another file.
pub fn enter(namespace: impl AsFd) -> Result<Guard> {
    let previous = current()?;
    set(namespace)?;
    Ok(Guard { previous, _not_send: PhantomData })
}

/// [`enter`]s the namespace named `name` by `ip netns`.
///
/// # Errors
/// As [`named`] and [`enter`].
pub fn enter_named(name: &str) -> Result<Guard> {
    enter(named(name)?)
}

/// Moves the calling thread to a namespace permanently.
///
/// # Errors
/// As [`enter`].
pub fn set(namespace: impl AsFd) -> Result<()> {
    let fd = namespace.as_fd();
    rustix::thread::move_into_link_name_space(fd, Some(LinkNameSpaceType::Network))
        .map_err(|errno| OsError::new("setns", format!("fd {}", fd.as_raw_fd()), errno))
}

/// Whether two descriptors refer to the same namespace.
///
/// # Errors
/// The errors of fstat(2).
pub fn same(a: impl AsFd, b: impl AsFd) -> Result<bool> {
    let identity = |fd: &dyn AsFd| {
        let fd = fd.as_fd();
        rustix::fs::fstat(fd)
            .map(|stat| (stat.st_dev, stat.st_ino))
            .map_err(|errno| OsError::new("fstat", format!("fd {}", fd.as_raw_fd()), errno))
    };
    Ok(identity(&a)? == identity(&b)?)
}

/// Returns the thread that [`enter`]ed a namespace to the previous one when dropped. It must stay
/// on that thread: it is neither `Send` nor `Sync`.
#[derive(Debug)]
#[must_use = "the thread goes back when this is dropped"]
pub struct Guard {
    previous: OwnedFd,
    _not_send: PhantomData<*const ()>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // This fails only for a thread that dropped its CAP_SYS_ADMIN inside; such a thread stays
        // in the namespace.
        let _ = set(&self.previous);
    }
}

fn open(path: &Path) -> Result<OwnedFd> {
    File::open(path)
        .map(OwnedFd::from)
        .map_err(|error| OsError::new("open", path.display().to_string(), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn named_refuses_paths() {
        for name in ["", ".", "..", "a/b", "/"] {
            assert_eq!(named(name).unwrap_err().errno(), Some(libc::EINVAL), "{name:?}");
        }
        assert_eq!(named("wirelane-no-such").unwrap_err().errno(), Some(libc::ENOENT));
    }

    #[test]
    fn network_namespaces_are_known() {
        assert!(is_network_namespace(current().unwrap()));
        for path in ["/proc/self/ns/uts", "/proc/self/status", "/"] {
            assert!(!is_network_namespace(File::open(path).unwrap()), "{path}");
        }
    }

    #[test]
    fn entering_something_else_is_an_error() {
        let error = enter(File::open("/proc/self/status").unwrap()).unwrap_err();
        assert!(matches!(error.errno(), Some(libc::EINVAL | libc::EPERM)), "{error}");
    }

    #[test]
    fn privileged_guard_brings_the_thread_back() {
        testing::in_new_namespace(|| {
            let outer = current().unwrap();
            unshare_net().unwrap();
            let inner = current().unwrap();
            assert!(!same(&outer, &inner).unwrap());
            assert_eq!(iface::list().unwrap().len(), 1, "only lo in a new namespace");
            {
                let _guard = enter(&outer).unwrap();
                assert!(same(&outer, current().unwrap()).unwrap());
            }
            assert!(same(&inner, current().unwrap()).unwrap());
        });
    }
}
