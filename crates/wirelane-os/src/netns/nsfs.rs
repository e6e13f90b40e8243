//! The file system of namespaces.

use std::os::fd::{AsFd, AsRawFd};

/// Whether a descriptor refers to a network namespace.
pub fn is_network_namespace(file: impl AsFd) -> bool {
    // Another kind of file could have a different request with this number.
    if !on_nsfs(file.as_fd()) {
        return false;
    }
    // SAFETY: on a file of nsfs this request takes nothing and returns the kind (ns_ioctl).
    let kind = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), NS_GET_NSTYPE) };
    kind == libc::CLONE_NEWNET
}

/// `_IO(0xb7, 3)` of `include/uapi/linux/nsfs.h`, Linux 4.11.
const NS_GET_NSTYPE: libc::Ioctl = 0xb703;

/// Whether a file belongs to the file system of namespaces.
pub(super) fn on_nsfs(file: impl AsFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|status| status.f_type as u64 == NSFS_MAGIC)
}

/// `include/uapi/linux/magic.h`
const NSFS_MAGIC: u64 = 0x6e73_6673;
