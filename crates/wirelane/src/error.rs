//! One error type: the object, the cause, and the remedy.
//!
//! Errors belong to set-up, tear-down and I/O calls. The hot path returns counts instead. The
//! methods of [`Frame`](crate::Frame) that change headers return the plain
//! [`WireError`], which allocates nothing.
//!
//! The crates for packets, files and filters, which work without ports, have one error type each.
//! Every one converts to [`Error`], so `?` works everywhere.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::{fmt, io};

use rustix::io::Errno;
use wirelane_os::error::OsError;
use wirelane_pcap::CaptureError;
use wirelane_wire::WireError;
use wirelane_wire::text::{on_one_line, sentence};

use crate::remedy::Remedy;

/// Result of every fallible call of this library outside the hot path.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error: it determines the exit status of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request itself is wrong: a malformed spec, an unknown key, an invalid filter, options
    /// that contradict each other, an output that is also the input. Nothing was changed. Exit
    /// status 2.
    Usage,
    /// The request is valid, but could not be carried out: a missing interface or privilege, a
    /// damaged file, a full disk, a call that the system refuses ([`Error::errno`]). Exit status 1.
    Failed,
    /// The reader of a pipe or socket closed it (`EPIPE`), as `head` does. A capture treats this as
    /// a clean end.
    BrokenPipe,
}

/// A failure in words: `object: cause; help`, always one line.
///
/// One pointer wide, so that results stay small on the way up. `Debug` formats like `Display`, so
/// that `fn main() -> wirelane::Result<()>` prints a useful message.
pub struct Error(Box<Body>);

struct Body {
    kind: ErrorKind,
    object: String,
    cause: Cow<'static, str>,
    help: Option<Cow<'static, str>>,
    remedy: Option<Remedy>,
    source: Option<OsError>,
}

impl Error {
    /// The request is malformed: `object` is what the user wrote.
    pub fn usage(object: impl Into<String>, cause: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Usage, object.into(), cause.into())
    }

    /// The request could not be carried out on `object`.
    pub fn failed(object: impl Into<String>, cause: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Failed, object.into(), cause.into())
    }

    /// A system call failed while working on `object`.
    #[doc(hidden)]
    pub fn os(object: impl Into<String>, source: OsError) -> Self {
        let mut error = Self::failed(object, source.to_string());
        if source.errno() == Some(Errno::PIPE.raw_os_error()) {
            error.0.kind = ErrorKind::BrokenPipe;
        }
        error.0.help = surroundings(&source).map(Cow::Borrowed);
        error.0.source = Some(source);
        error
    }

    /// An I/O operation (`call`) failed on `object`.
    pub fn io(object: impl Into<String>, call: &'static str, source: io::Error) -> Self {
        let object = object.into();
        let source = OsError { call, object: object.clone(), source };
        Self::os(object, source)
    }

    /// Adds the next step for the user.
    #[must_use]
    pub fn help(mut self, help: impl Into<Cow<'static, str>>) -> Self {
        self.0.help = Some(help.into());
        self.0.remedy = None;
        self
    }

    /// Adds a next step that a program may word in its own way.
    #[doc(hidden)]
    #[must_use]
    pub fn remedy(mut self, remedy: Remedy) -> Self {
        self.0.help = Some(remedy.to_string().into());
        self.0.remedy = Some(remedy);
        self
    }

    /// Adds the failed system call, for [`Error::errno`].
    #[doc(hidden)]
    #[must_use]
    pub fn caused_by(mut self, source: OsError) -> Self {
        self.0.source = Some(source);
        self
    }

    /// The failed system call.
    pub(crate) fn into_source(self) -> Option<OsError> {
        self.0.source
    }

    /// The kind of this failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The errno, if a system call failed.
    pub fn errno(&self) -> Option<i32> {
        self.0.source.as_ref().and_then(OsError::errno)
    }

    /// The cause without object and help.
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// The next step for the user, if there is one.
    pub fn next_step(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// The next step, if it names a setting of this library.
    #[doc(hidden)]
    pub fn offered_remedy(&self) -> Option<&Remedy> {
        self.0.remedy.as_ref()
    }

    /// The failure without the next step: `object: cause`, on one line.
    #[doc(hidden)]
    pub fn problem(&self) -> String {
        format!("{}: {}", on_one_line(&self.0.object), on_one_line(&self.0.cause))
    }

    /// Removes duplicates: a removed interface fails at each of its queues.
    #[doc(hidden)]
    pub fn each_once(errors: &mut Vec<Self>) {
        let mut said = BTreeSet::new();
        errors.retain(|error| said.insert((error.0.object.clone(), error.0.cause.clone())));
    }

    fn new(kind: ErrorKind, object: String, cause: Cow<'static, str>) -> Self {
        Self(Box::new(Body { kind, object, cause, help: None, remedy: None, source: None }))
    }
}

/// For `?`. Code that knows the object names it with [`Error::os`].
#[doc(hidden)]
impl From<OsError> for Error {
    fn from(source: OsError) -> Self {
        Self::os("system", source)
    }
}

/// For `?` in programs. Code that knows the object names it with [`Error::io`].
impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::BrokenPipe => ErrorKind::BrokenPipe,
            _ => ErrorKind::Failed,
        };
        let error = Self::new(kind, "I/O".into(), source.to_string().into());
        error.caused_by(OsError { call: "I/O", object: String::new(), source })
    }
}

/// For `?` in programs that read addresses from their arguments.
impl From<std::net::AddrParseError> for Error {
    fn from(error: std::net::AddrParseError) -> Self {
        Self::usage("address", error.to_string())
    }
}

/// For `?` in programs: the packet is malformed, or lacks a header.
impl From<WireError> for Error {
    fn from(error: WireError) -> Self {
        Self::failed("packet", error.to_string())
    }
}

/// An invalid filter is a [usage error](ErrorKind::Usage).
impl From<wirelane_filter::Error> for Error {
    fn from(error: wirelane_filter::Error) -> Self {
        let parts = error.into_parts();
        let mut error = match (parts.kind, parts.source) {
            (_, Some(wirelane_filter::Refused { call, object, source })) => {
                Self::os(parts.object, OsError { call, object, source })
            }
            (wirelane_filter::ErrorKind::Invalid, None) => Self::usage(parts.object, parts.cause),
            (_, None) => Self::failed(parts.object, parts.cause),
        };
        error.0.help = parts.help.or(error.0.help);
        error
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

/// The remedy for problems of the process's environment, for any call.
fn surroundings(source: &OsError) -> Option<&'static str> {
    let lacks =
        |mount: &str, file: &str| source.object.starts_with(mount) && !Path::new(file).exists();
    match Errno::from_raw_os_error(source.errno()?) {
        Errno::MFILE => Some("`ulimit -n 1024` or more raises the limit of open files"),
        Errno::NOENT if lacks("/proc/", "/proc/self") => {
            Some("no /proc is mounted here: `mount -t proc proc /proc`")
        }
        Errno::NOENT if lacks("/sys/", "/sys/kernel") => {
            Some("no /sys is mounted here: `mount -t sysfs sysfs /sys`")
        }
        Errno::NOENT | Errno::NOTDIR if source.call == "open" => Some("check the path"),
        Errno::ISDIR => Some("name a file in it"),
        Errno::NODEV if source.call.starts_with("ioctl SIOCG") => {
            Some("`wirelane queues` lists the interfaces")
        }
        _ => None,
    }
}

/// An invalid option, and an output that is also an input, are [usage errors](ErrorKind::Usage), a
/// closed pipe is a [broken pipe](ErrorKind::BrokenPipe).
impl From<CaptureError> for Error {
    fn from(error: CaptureError) -> Self {
        if error.is_broken_pipe() {
            return Self::io(error.name(), "write", Errno::PIPE.into());
        }
        let (cause, help) = error.parts();
        let object = error.name().to_owned();
        let kind = match error {
            CaptureError::IsInput { .. } | CaptureError::Invalid { .. } => ErrorKind::Usage,
            _ => ErrorKind::Failed,
        };
        let mut converted = Self::new(kind, object.clone(), cause.into());
        converted.0.help = help;
        let (call, source) = match error {
            CaptureError::Open { action, source, .. } => (action, source),
            CaptureError::Read { source, .. } => ("read", source),
            CaptureError::Write { source, .. } => ("write", source),
            _ => return converted,
        };
        converted.caused_by(OsError { call, object, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_with_object_cause_and_next_step() {
        let error = Error::usage("sim:x\n", "not a number of queues").help("write sim:4");
        assert_eq!(error.to_string(), "sim:x\\n: not a number of queues; write sim:4");
        assert_eq!(error.kind(), ErrorKind::Usage);
        let error = Error::failed("a\rb", "c\nd").help("e\u{1b}[1m");
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
    }

    #[test]
    fn what_is_long_is_cut_in_its_middle() {
        let text = format!("begin{}end", "é".repeat(100_000));
        let error = Error::usage(&text, format!("'{text}' is none")).help(text.clone());
        assert!(error.to_string().contains("is none; begin"), "{error}");
        assert!(error.to_string().chars().count() < 3 * 450, "{error}");
    }

    #[test]
    fn keeps_the_errno() {
        let error = Error::io("out", "open", io::Error::from_raw_os_error(13));
        assert_eq!(error.errno(), Some(13));
        assert!(error.to_string().contains("EACCES"), "{error}");
    }

    #[test]
    fn question_marks() {
        fn parse(bytes: &[u8]) -> Result<()> {
            wirelane_wire::EthernetView::new(bytes)?;
            Err(io::Error::from(io::ErrorKind::BrokenPipe))?
        }
        let error = parse(&[]).unwrap_err();
        assert_eq!(error.to_string(), "packet: truncated: 14 bytes needed, 0 present");
        assert_eq!(parse(&[0; 14]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        let error = Error::from(io::Error::from_raw_os_error(13));
        assert_eq!((error.errno(), error.kind()), (Some(13), ErrorKind::Failed));
    }

    #[test]
    fn errors_of_the_crates_below_keep_their_text() {
        let filter = "1,6 0 0".parse::<wirelane_filter::Filter>().unwrap();
        let filter = filter.program(1, 96).unwrap_err();
        let text = filter.to_string();
        let error = Error::from(filter);
        assert_eq!((error.to_string(), error.kind()), (text, ErrorKind::Usage));

        let name = || "a.pcap".to_owned();
        let source = || io::Error::from_raw_os_error(13);
        let (usage, failed) = (ErrorKind::Usage, ErrorKind::Failed);
        for (capture, kind, errno) in [
            (CaptureError::IsInput { name: name() }, usage, None),
            ("all".parse::<wirelane_pcap::Class>().unwrap_err(), usage, None),
            (
                CaptureError::BrokenPipe { name: name(), packets: 9 },
                ErrorKind::BrokenPipe,
                Some(32),
            ),
            (CaptureError::Truncated { name: name(), offset: 24, packets: 9 }, failed, None),
            (
                CaptureError::Open { name: name(), action: "open", source: source() },
                failed,
                Some(13),
            ),
        ] {
            let (text, is_pipe) = (capture.to_string(), capture.is_broken_pipe());
            let error = Error::from(capture);
            assert_eq!((error.kind(), error.errno()), (kind, errno), "{error}");
            assert!(error.to_string() == text || is_pipe, "{error}, {text}");
        }

        let error = Error::from(OsError::from_errno("bind", "eth7", 13));
        assert_eq!(error.to_string(), "system: bind(eth7): Permission denied (EACCES)");
        assert_eq!((error.kind(), error.errno()), (failed, Some(13)));
    }

    #[test]
    fn one_cause_is_told_once() {
        let removed = || Error::failed("eth0", "the interface was removed");
        let mut errors = vec![
            removed().help("what came before is valid"),
            Error::failed("eth1", "the interface was removed"),
            removed(),
            Error::failed("eth0", "panicked"),
            removed(),
        ];
        Error::each_once(&mut errors);
        let said: Vec<_> = errors.iter().map(Error::to_string).collect();
        let expected = [
            "eth0: the interface was removed; what came before is valid",
            "eth1: the interface was removed",
            "eth0: panicked",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn too_few_descriptors_have_a_remedy() {
        let error = Error::io("eth0", "socket", io::Error::from_raw_os_error(24));
        assert!(error.to_string().contains("(EMFILE); `ulimit -n"), "{error}");
    }
}
