//! Socket options by value, for levels without a wrapper in rustix.

use crate::error::{OsError, Result};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

/// A plain value that can be exchanged with the kernel as bytes.
///
/// # Safety
/// Every bit pattern is a valid value, and there is no padding that the kernel would read as a
/// field.
pub(crate) unsafe trait Plain: Copy {}
// SAFETY: a C int has neither invalid patterns nor padding.
unsafe impl Plain for i32 {}
// SAFETY: three numbers of four bytes each.
unsafe impl Plain for libc::ucred {}

/// `setsockopt(fd, level, option, value)`; `call` names the option in the error.
pub(crate) fn set<T: Plain>(
    fd: BorrowedFd<'_>,
    (level, option): (i32, i32),
    value: &T,
    call: &'static str,
    object: impl FnOnce() -> String,
) -> Result<()> {
    // SAFETY: `value` is readable for its whole size, and the kernel only reads it.
    let status = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(OsError::last(call, object())) }
}

/// `getsockopt(fd, level, option)`; bytes that the kernel does not fill are zero.
pub(crate) fn get<T: Plain>(
    fd: BorrowedFd<'_>,
    (level, option): (i32, i32),
    call: &'static str,
) -> Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable for `len` bytes, and the kernel writes no more than that.
    let status = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, option, value.as_mut_ptr().cast(), &mut len)
    };
    if status != 0 {
        return Err(OsError::last(call, format!("fd {}", fd.as_raw_fd())));
    }
    // SAFETY: zeroed above and possibly overwritten; `Plain` has no invalid bit patterns.
    Ok(unsafe { value.assume_init() })
}
