//! The error type of this crate: the failed call, its object, and the errno.

use std::fmt;
use std::io;

/// A result whose error is an [`OsError`].
pub type Result<T> = std::result::Result<T, OsError>;

/// A failed system call.
///
/// Displayed as `call(object): Permission denied (EACCES)`, so that a message can be searched by
/// its text and by its name.
#[derive(Debug)]
pub struct OsError {
    /// The system call, with its option or request if any, e.g. `setsockopt PACKET_RX_RING`.
    pub call: &'static str,
    /// The object of the call, e.g. an interface name; may be empty.
    pub object: String,
    /// The error of the kernel.
    pub source: io::Error,
}

impl OsError {
    /// An error from `source`, which may be an `io::Error` or a `rustix::io::Errno`.
    pub fn new(
        call: &'static str,
        object: impl Into<String>,
        source: impl Into<io::Error>,
    ) -> OsError {
        let source = match source.into() {
            // The standard library detects this error itself, and describes it in other words.
            error if error.kind() == io::ErrorKind::OutOfMemory => {
                io::Error::from_raw_os_error(libc::ENOMEM)
            }
            error => error,
        };
        OsError { call, object: object.into(), source }
    }

    /// An error from the calling thread's `errno`; call this before another call changes it.
    pub fn last(call: &'static str, object: impl Into<String>) -> OsError {
        let source = io::Error::last_os_error();
        OsError { call, object: object.into(), source }
    }

    /// An error with the given errno, for conditions found before the system call.
    pub fn from_errno(call: &'static str, object: impl Into<String>, errno: i32) -> OsError {
        OsError { call, object: object.into(), source: io::Error::from_raw_os_error(errno) }
    }

    /// The errno, or `None` when the error did not come from the kernel.
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }

    /// Whether the system lacked resources for the call, whatever its arguments.
    pub fn is_exhaustion(&self) -> bool {
        self.errno().is_some_and(is_exhaustion)
    }
}

impl fmt::Display for OsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.object.as_str() {
            "" => write!(f, "{}: ", self.call)?,
            object => write!(f, "{}({object}): ", self.call)?,
        }
        f.write_str(&described(&self.source))
    }
}

impl std::error::Error for OsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl From<OsError> for io::Error {
    fn from(error: OsError) -> io::Error {
        io::Error::new(error.source.kind(), error)
    }
}

/// The words of an error, and the name of its errno, e.g. `Permission denied (EACCES)`.
pub fn described(error: &io::Error) -> String {
    let words = words(error);
    match error.raw_os_error().map(|errno| (errno, errno_name(errno))) {
        None => words,
        Some((errno, UNKNOWN)) => format!("{words} (errno {errno})"),
        Some((_, name)) => format!("{words} ({name})"),
    }
}

/// The words of an error, without the number that the standard library appends.
pub fn words(error: &io::Error) -> String {
    let mut words = error.to_string();
    if error.raw_os_error().is_some()
        && let Some(end) = words.find(" (os error")
    {
        words.truncate(end);
    }
    words
}

/// Whether this errno means a lack of descriptors or memory.
pub fn is_exhaustion(errno: i32) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)
}

/// The result of [`errno_name`] for an unknown number.
pub const UNKNOWN: &str = "unknown errno";

/// The symbolic name of an errno (a positive number), e.g. `EPERM` for 1, or [`UNKNOWN`].
pub fn errno_name(errno: i32) -> &'static str {
    macro_rules! names {
        ($($name:ident)*) => {
            match errno {
                $(libc::$name => stringify!($name),)*
                // Internal to the kernel, but several driver ioctls return it.
                ENOTSUPP => "ENOTSUPP",
                _ => UNKNOWN,
            }
        };
    }
    names! {
        EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST
        EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM
        ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENODATA ETIME EPROTO EBADMSG EOVERFLOW EILSEQ EUSERS
        ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT
        EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN
        ENOTCONN ESHUTDOWN ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EDQUOT ENOMEDIUM
        ECANCELED EBADFD ENONET ENOLINK EREMOTEIO ENOKEY EOWNERDEAD ENOTRECOVERABLE ERFKILL EHWPOISON
    }
}

/// `ENOTSUPP` of `include/linux/errno.h`, which is not part of the user-space ABI.
const ENOTSUPP: i32 = 524;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_has_words_and_name() {
        let error = OsError::from_errno("bind", "eth7", libc::EACCES);
        assert_eq!(error.to_string(), "bind(eth7): Permission denied (EACCES)");
        assert_eq!(error.errno(), Some(libc::EACCES));
        assert_eq!(error.errno().map(errno_name), Some("EACCES"));
    }

    #[test]
    fn display_of_an_unknown_errno_keeps_the_number() {
        let error = OsError::from_errno("ioctl", "x", 4000);
        assert!(error.to_string().ends_with("(errno 4000)"), "{error}");
        assert_eq!(error.errno().map(errno_name), Some(UNKNOWN));
    }

    #[test]
    fn display_without_an_object() {
        let error = OsError::from_errno("socket", "", libc::EMFILE);
        assert_eq!(error.to_string(), "socket: Too many open files (EMFILE)");
    }

    #[test]
    fn display_without_errno() {
        let error = OsError::new("read", "/sys/x", io::Error::other("not a number"));
        assert_eq!(error.to_string(), "read(/sys/x): not a number");
        assert_eq!(error.errno(), None);
    }

    #[test]
    fn last_takes_the_threads_errno() {
        // SAFETY: closing an invalid descriptor touches nothing and sets errno.
        unsafe { libc::close(-1) };
        assert_eq!(OsError::last("close", "-1").errno(), Some(libc::EBADF));
    }

    #[test]
    fn names_of_common_errnos() {
        for (errno, name) in
            [(1, "EPERM"), (13, "EACCES"), (77, "EBADFD"), (95, "EOPNOTSUPP"), (100, "ENETDOWN")]
        {
            assert_eq!(errno_name(errno), name);
        }
        assert_eq!(errno_name(524), "ENOTSUPP");
        assert_eq!(errno_name(0), UNKNOWN);
        assert_eq!(errno_name(-1), UNKNOWN);
    }
}
