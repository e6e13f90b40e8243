//! Errors of a store, in one line each: the object, the cause, the next step.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

use wirelane_os::error::{OsError, described};
use wirelane_pcap::CaptureError;
use wirelane_wire::text;

/// The result of working with a store.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure: `object: cause; help`, always one line. The one error type of this crate; with the
/// feature `wirelane` it converts to `wirelane::Error`.
///
/// An error means that a store could not be opened, read or written at all: it does not exist, is
/// no store, belongs to another recorder, or the system refuses a call ([`Error::errno`]); that a
/// filter does not compile; or that options contradict each other. Damage inside a store is no
/// error: queries skip it and report it ([`Damage`](crate::Damage)).
///
/// Its size is one pointer. `Debug` equals `Display`.
pub struct Error(Box<Body>);

struct Body {
    /// The file or the directory.
    object: String,
    cause: Cow<'static, str>,
    help: Option<Cow<'static, str>>,
    errno: Option<i32>,
}

impl Error {
    /// `cause` is wrong with `object`.
    pub(crate) fn new(object: impl Into<String>, cause: impl Into<Cow<'static, str>>) -> Self {
        let (object, cause) = (object.into(), cause.into());
        Self(Box::new(Body { object, cause, help: None, errno: None }))
    }

    /// The system refuses to `action` the file.
    pub(crate) fn io(path: &Path, action: &str, error: &io::Error) -> Self {
        let cause = format!("cannot {action}: {}", described(error));
        let mut new = Self::new(path.display().to_string(), cause);
        new.0.errno = error.raw_os_error();
        new.0.help = advice(error.kind()).map(Cow::Borrowed);
        new
    }

    /// A system call failed.
    pub(crate) fn os(error: OsError) -> Self {
        let mut new = Self::new(error.object.clone(), error.to_string());
        if error.object.is_empty() {
            new.0.object = error.call.into();
        }
        new.0.errno = error.errno();
        new
    }

    /// The system refuses to start the thread with this name.
    pub(crate) fn thread(name: &str, error: io::Error) -> Self {
        Self::os(OsError::new("clone", format!("thread {name}"), error))
    }

    /// Adds the remedy.
    pub(crate) fn help(mut self, help: impl Into<Cow<'static, str>>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// The operating system's error number, if that was the cause.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.0.errno
    }

    /// The cause without object and remedy.
    #[must_use]
    pub fn cause(&self) -> &str {
        &self.0.cause
    }
}

/// The remedy for a kind of error, if there is one.
fn advice(kind: io::ErrorKind) -> Option<&'static str> {
    Some(match kind {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::NotADirectory => "name a directory",
        io::ErrorKind::PermissionDenied => "check who may access it",
        io::ErrorKind::ReadOnlyFilesystem => "choose another directory",
        _ => return None,
    })
}

impl From<CaptureError> for Error {
    fn from(error: CaptureError) -> Self {
        let errno = error.errno();
        let (cause, help) = error.parts();
        let mut new = Self::new(error.name(), cause);
        new.0.help = help;
        new.0.errno = errno;
        new
    }
}

impl From<wirelane_filter::Error> for Error {
    fn from(error: wirelane_filter::Error) -> Self {
        let parts = error.into_parts();
        let mut new = Self::new(parts.object, parts.cause);
        new.0.help = parts.help;
        new.0.errno = parts.source.and_then(|refused| refused.source.raw_os_error());
        new
    }
}

/// A failure of the library of ports, with the errno.
#[cfg(feature = "wirelane")]
impl From<Error> for wirelane::Error {
    fn from(error: Error) -> Self {
        let Body { object, cause, help, errno } = *error.0;
        let new = Self::failed(object, cause);
        let new = help.into_iter().fold(new, |new, help| new.help(help));
        match errno {
            Some(errno) => new.caused_by(OsError::from_errno("store", "", errno)),
            None => new,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::sentence(f, &self.0.object, &self.0.cause, self.0.help.as_deref())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_a_number_and_a_remedy() {
        let denied = io::Error::from_raw_os_error(13);
        let error = Error::io(Path::new("/days"), "open the store", &denied);
        let text = "/days: cannot open the store: Permission denied (EACCES); check who may access \
                    it";
        assert_eq!((error.to_string().as_str(), error.errno()), (text, Some(13)));
        assert!(error.cause().starts_with("cannot open the store"), "{error}");
        #[cfg(feature = "wirelane")]
        {
            let error = wirelane::Error::from(error);
            assert_eq!((error.to_string().as_str(), error.errno()), (text, Some(13)));
            assert_eq!(error.kind(), wirelane::ErrorKind::Failed);
        }
    }

    #[test]
    fn other_errors_convert() {
        let truncated = CaptureError::Truncated { name: "a.pcapng".into(), offset: 9, packets: 1 };
        let text = truncated.to_string();
        assert_eq!(Error::from(truncated).to_string(), text);
        let source = io::Error::from_raw_os_error(5);
        let unread = CaptureError::Read { name: "a.pcapng".into(), offset: 9, source };
        let text = unread.to_string();
        assert_eq!(text, "a.pcapng: cannot read at byte 9: Input/output error (EIO)");
        assert_eq!(Error::from(unread).to_string(), text);
        let filter = "1,6 0 0".parse::<wirelane_filter::Filter>().unwrap();
        let filter = filter.program(1, 96).unwrap_err();
        let text = filter.to_string();
        assert_eq!(Error::from(filter).to_string(), text);
    }
}
