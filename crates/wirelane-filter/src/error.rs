//! Errors of filters, in one line each: the object, the cause, the next step.

use std::borrow::Cow;
use std::ops::Range;
use std::{fmt, io};

use wirelane_wire::text::{is_hostile, sentence};

/// Result of making or preparing a filter. Running a filter cannot fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whether the user or the system caused an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The filter is wrong: libpcap rejects the expression, the program breaks the kernel's rules
    /// or is for another link type, or it needs a feature that its engine lacks. Also if there is
    /// no libpcap to compile an expression.
    Invalid,
    /// The filter is valid, but this system cannot run it in this way: it has no executable memory,
    /// or machine code for its processor is not supported.
    Failed,
}

/// An error as text: `object: cause; help`, always one line. The one error type of this crate; it
/// converts to `wirelane::Error`.
///
/// An error in an expression also has its place ([`Error::span`], [`Error::caret`]).
///
/// Its size is one pointer. `Debug` equals `Display`.
pub struct Error(Box<ErrorParts>);

/// The parts of an error, for conversion to another error type.
#[doc(hidden)]
#[derive(Debug)]
#[non_exhaustive]
pub struct ErrorParts {
    /// Whether the user or the system caused it.
    pub kind: ErrorKind,
    /// The user's text, or the resource that the system refused.
    pub object: String,
    /// The problem with the object.
    pub cause: Cow<'static, str>,
    /// The next step for the user, if there is one.
    pub help: Option<Cow<'static, str>>,
    /// The failed system call, if any.
    pub source: Option<Refused>,
    /// The place in the expression, if known.
    place: Option<Place>,
}

/// A place in an expression.
#[derive(Debug)]
struct Place {
    expression: String,
    /// Bytes of the expression.
    span: Range<usize>,
}

/// A system call that failed.
#[doc(hidden)]
#[derive(Debug)]
pub struct Refused {
    /// The call.
    pub call: &'static str,
    /// The object of the call.
    pub object: String,
    /// The error that the system returned.
    pub source: io::Error,
}

impl Refused {
    /// The last call of this thread failed.
    #[cfg(target_os = "linux")]
    pub(crate) fn last(call: &'static str, object: impl Into<String>) -> Self {
        Self { call, object: object.into(), source: io::Error::last_os_error() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}): {}", self.call, self.object, self.source)
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl Error {
    pub(crate) fn invalid(object: impl Into<String>, cause: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, object.into(), cause.into())
    }

    pub(crate) fn failed(object: impl Into<String>, cause: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Failed, object.into(), cause.into())
    }

    pub(crate) fn system(object: impl Into<String>, source: Refused) -> Self {
        let mut error = Self::failed(object, source.to_string());
        error.0.source = Some(source);
        error
    }

    /// Adds the next step for the user.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<Cow<'static, str>>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Whether the user or the system caused it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The cause without object and help.
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// The bytes of the expression that the error is about. The range is behind the end if more
    /// text was expected, and `None` if the place is unknown.
    pub fn span(&self) -> Option<Range<usize>> {
        self.0.place.as_ref().map(|place| place.span.clone())
    }

    /// Two lines: the expression, and a caret below the place. `None` if the place is unknown.
    /// Control characters are shown as spaces.
    pub fn caret(&self) -> Option<String> {
        let Place { expression, span } = self.0.place.as_ref()?;
        let before = expression.get(..span.start)?.chars().count();
        let marked = expression.get(span.clone()).map_or(1, |text| text.chars().count()).max(1);
        let line = expression.replace(is_hostile, " ");
        Some(format!("{line}\n{:before$}^{:~<rest$}", "", "", rest = marked - 1))
    }

    /// Adds the place in the expression.
    #[must_use]
    pub(crate) fn at(mut self, expression: String, span: Range<usize>) -> Self {
        self.0.place = Some(Place { expression, span });
        self
    }

    /// All parts of the error.
    #[doc(hidden)]
    pub fn into_parts(self) -> ErrorParts {
        *self.0
    }

    fn new(kind: ErrorKind, object: String, cause: Cow<'static, str>) -> Self {
        Self(Box::new(ErrorParts { kind, object, cause, help: None, source: None, place: None }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sentence(f, &self.0.object, &self.0.cause, self.0.help.as_deref())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}
