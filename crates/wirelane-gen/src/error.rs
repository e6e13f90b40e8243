//! The error type of this crate: one line that names the place, the problem and valid values.

use std::fmt;

use wirelane_wire::text::is_hostile;

/// The result of describing, reading or generating packets.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An invalid description of packets, or a [`PacketSource`](crate::source::PacketSource) that
/// cannot be read further. The one error type of this crate; with the feature `wirelane` it
/// converts to `wirelane::Error`.
///
/// Displayed as one line, without characters that could command a terminal. Errors of flow files
/// begin with the [place](Error::place). Its size is one pointer.
pub struct Error(Box<Body>);

struct Body {
    kind: ErrorKind,
    message: String,
    place: Option<Place>,
    source: Option<Cause>,
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Whether the description or its source caused an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A recipe, flow file, size, rate or rule is invalid; its values contradict each other; a rate
    /// is a share of an unknown link speed.
    Invalid,
    /// A [`PacketSource`](crate::source::PacketSource) ended early: its file is damaged, or cannot
    /// be read.
    /// [`std::error::Error::source`] has the cause. Earlier packets are valid.
    Source,
}

/// A place in a flow file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The line, from 1. LF, CR and CRLF end a line, as in YAML.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The path in the model, such as `flows[3].packet[1].ipv4.options`. Empty for a YAML error.
    pub path: String,
}

impl Error {
    /// An invalid description, with this message.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        let kind = ErrorKind::Invalid;
        Self(Box::new(Body { kind, message: message.into(), place: None, source: None }))
    }

    /// A source of packets that ended early, for implementations of
    /// [`PacketSource`](crate::source::PacketSource).
    pub fn of_source(cause: impl Into<Cause>) -> Self {
        let cause = cause.into();
        let (kind, message) = (ErrorKind::Source, cause.to_string());
        Self(Box::new(Body { kind, message, place: None, source: Some(cause) }))
    }

    /// Adds the place in a flow file.
    #[cfg(feature = "otg")]
    pub(crate) fn at(mut self, line: usize, column: usize, path: String) -> Self {
        self.0.place = Some(Place { line, column, path });
        self
    }

    /// Whether the description or its source caused it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The problem, without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The place, for errors of flow files.
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Quotes from the text may contain any character.
        let one_line = |text: &str| text.replace(is_hostile, " ");
        if let Some(Place { line, column, path }) = self.place() {
            write!(f, "line {line}, column {column}: ")?;
            if !path.is_empty() {
                write!(f, "{}: ", one_line(path))?;
            }
        }
        f.write_str(&one_line(self.message()))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Errors with the same text are equal.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        (self.kind(), self.message(), self.place())
            == (other.kind(), other.message(), other.place())
    }
}

impl Eq for Error {}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|cause| cause as _)
    }
}

/// An invalid description is a usage error, a source that ended early is a failure.
#[cfg(feature = "wirelane")]
impl From<Error> for wirelane::Error {
    fn from(error: Error) -> Self {
        const OBJECT: &str = "packets to send";
        match error.kind() {
            ErrorKind::Invalid => Self::usage(OBJECT, error.to_string()),
            ErrorKind::Source => Self::failed(OBJECT, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_text_commands_the_terminal() {
        let text = "a\u{1b}[2J\nb\u{202e}c\u{200b}d";
        let shown = "a [2J b c d";
        assert_eq!(Error::new(text).to_string(), shown);
        assert_eq!(Error::of_source(text).to_string(), shown);
    }

    #[cfg(feature = "otg")]
    #[test]
    fn the_place_is_first() {
        let error = Error::new("it is 0").at(1, 2, "flows[0]\u{1b}".into());
        assert_eq!(error.to_string(), "line 1, column 2: flows[0] : it is 0");
        assert_eq!(error.place().unwrap().path, "flows[0]\u{1b}");
        let yaml = Error::new("a second YAML document").at(3, 1, String::new());
        assert_eq!(yaml.to_string(), "line 3, column 1: a second YAML document");
    }

    #[test]
    fn a_source_keeps_its_cause() {
        let error = Error::of_source(std::io::Error::from(std::io::ErrorKind::UnexpectedEof));
        let cause = std::error::Error::source(&error).unwrap();
        assert!(cause.downcast_ref::<std::io::Error>().is_some());
        assert_eq!(error.kind(), ErrorKind::Source);
        assert_eq!(error.to_string(), cause.to_string());
    }

    #[cfg(feature = "wirelane")]
    #[test]
    fn it_is_an_error_of_the_library() {
        let error = wirelane::Error::from(Error::new("'5' is no rate"));
        assert_eq!(error.to_string(), "packets to send: '5' is no rate");
        assert_eq!(error.kind(), wirelane::ErrorKind::Usage);
        let error = wirelane::Error::from(Error::of_source("the disk is gone"));
        assert_eq!(error.kind(), wirelane::ErrorKind::Failed);
    }
}
