//! Errors of a store, in one line each: the object, the cause, the next step.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

use wirelane_os::error::{OsError, errno_name};
use wirelane_pcap::CaptureError;
use wirelane_wire::text;

/// The result of working with a store.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure: `object: cause; help`.
pub struct Error(Box<ErrorParts>);

/// The parts of an [`Error`].
#[derive(Debug)]
pub struct ErrorParts {
    /// The file or the directory.
    pub object: String,
    /// What happened.
    pub cause: Cow<'static, str>,
    /// The remedy.
    pub help: Option<Cow<'static, str>>,
    /// The operating system's error number, if that was the cause.
    pub errno: Option<i32>,
}

impl Error {
    /// `cause` is wrong with `object`.
    pub(crate) fn new(object: impl Into<String>, cause: impl Into<Cow<'static, str>>) -> Self {
        let (object, cause) = (object.into(), cause.into());
        Self(Box::new(ErrorParts { object, cause, help: None, errno: None }))
    }

    /// The system refuses to `action` the file.
    pub(crate) fn io(path: &Path, action: &str, error: &io::Error) -> Self {
        let text = error.to_string();
        let cause = match error.raw_os_error() {
            Some(errno) => {
                let text = text.split(" (os error").next().unwrap_or(&text);
                format!("cannot {action}: {text} ({})", errno_name(errno))
            }
            None => format!("cannot {action}: {text}"),
        };
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

    /// The parts of the error.
    #[must_use]
    pub fn into_parts(self) -> ErrorParts {
        *self.0
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
        let mut new = Self::new(error.name(), cause).help(help);
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
