//! Errors of capture files, in one line each: the object, the cause, the next step.

use std::borrow::Cow;
use std::fmt;
use std::io;

use wirelane_wire::text::sentence;

use crate::system::symbol;

/// An error of reading or writing a capture file, or of its options. `name` is the path,
/// `standard input` or `standard output`.
///
/// The one error type of this crate; it converts to `wirelane::Error`. Functions that only pass on
/// an error of the system return [`io::Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file does not exist, or the system refuses to open or create it, or its compression
    /// could not be started.
    Open {
        /// Path.
        name: String,
        /// The action, such as `open` or `create`.
        action: &'static str,
        /// Cause.
        source: io::Error,
    },
    /// Reading failed, compressed data are damaged, or the source is empty for now
    /// ([`CaptureError::is_would_block`]).
    Read {
        /// Path.
        name: String,
        /// Bytes read before (after decompression).
        offset: u64,
        /// Cause.
        source: io::Error,
    },
    /// The file is neither pcap nor pcapng.
    Unrecognized {
        /// Path.
        name: String,
        /// A description of its first bytes.
        what: String,
    },
    /// The file ends inside a block. All packets before it were delivered.
    Truncated {
        /// Path.
        name: String,
        /// Where the incomplete block starts (after decompression).
        offset: u64,
        /// Whole packets before it.
        packets: u64,
    },
    /// A block contradicts the format. All packets before it were delivered; the position of the
    /// next block is unknown.
    Malformed {
        /// Path.
        name: String,
        /// Where the block starts (after decompression).
        offset: u64,
        /// The contradiction.
        what: &'static str,
    },
    /// Writing failed: the disk is full, the file too large, or its reader stalled for too long.
    Write {
        /// Path.
        name: String,
        /// Packets that are safely in this file.
        packets: u64,
        /// Cause.
        source: io::Error,
    },
    /// The reader of standard output or of a FIFO closed it. This is a clean end.
    BrokenPipe {
        /// Path.
        name: String,
        /// Packets handed to the pipe before.
        packets: u64,
    },
    /// The output is also an input: writing would destroy it. The file is unchanged.
    IsInput {
        /// Path.
        name: String,
    },
    /// The text is no value of an option.
    Invalid {
        /// The option, such as `compression`.
        name: &'static str,
        /// The problem.
        what: String,
        /// The valid values.
        help: Cow<'static, str>,
    },
    /// The format or the system does not support the request.
    Unsupported {
        /// Path.
        name: String,
        /// The unsupported request.
        what: &'static str,
        /// The alternative.
        help: &'static str,
    },
}

impl CaptureError {
    /// Whether the reader of a pipe closed it, which ends a program cleanly.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::BrokenPipe { .. })
    }

    /// Whether the source is only empty for now: reading can continue later.
    #[must_use]
    pub fn is_would_block(&self) -> bool {
        matches!(self, Self::Read { source, .. } if source.kind() == io::ErrorKind::WouldBlock)
    }

    /// The operating system's error number, if that was the cause.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Open { source, .. } | Self::Read { source, .. } | Self::Write { source, .. } => {
                source.raw_os_error()
            }
            _ => None,
        }
    }

    /// The name of the file in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Open { name, .. }
            | Self::Read { name, .. }
            | Self::Unrecognized { name, .. }
            | Self::Truncated { name, .. }
            | Self::Malformed { name, .. }
            | Self::Write { name, .. }
            | Self::BrokenPipe { name, .. }
            | Self::IsInput { name }
            | Self::Unsupported { name, .. } => name,
            Self::Invalid { name, .. } => name,
        }
    }

    /// The cause, and the next step if there is one, without the object.
    #[must_use]
    pub fn parts(&self) -> (String, Option<Cow<'static, str>>) {
        match self {
            Self::Open { action, source, .. } => {
                (format!("cannot {action}: {}", cause(source)), advice(source))
            }
            Self::Read { offset, .. } if self.is_would_block() => {
                (format!("no data yet at byte {offset}"), Some("read on later".into()))
            }
            Self::Read { offset, source, .. } if source.raw_os_error().is_none() => (
                format!("damaged at byte {offset} of its content: {source}"),
                Some("everything before it can be used".into()),
            ),
            Self::Read { offset, source, .. } => {
                (format!("cannot read at byte {offset}: {}", cause(source)), advice(source))
            }
            Self::Unrecognized { what, .. } => (
                format!("not a capture file: {what}"),
                Some("give a pcap or pcapng file, plain, gzip, lz4 or zstd".into()),
            ),
            Self::Truncated { offset, packets, .. } => (
                format!("cut short in the block at byte {offset}"),
                Some(format!("the {packets} packets before it can be used").into()),
            ),
            Self::Malformed { offset, what, .. } => (
                format!("corrupt at byte {offset}: {what}"),
                Some("the packets before it can be used".into()),
            ),
            Self::Write { packets, source, .. } => (
                format!(
                    "cannot write: {}; {packets} packets are safely in the file",
                    cause(source)
                ),
                advice(source),
            ),
            Self::BrokenPipe { packets, .. } => {
                (format!("the reader closed the pipe after {packets} packets"), None)
            }
            Self::IsInput { .. } => {
                ("it is the input file".into(), Some("write to another file".into()))
            }
            Self::Invalid { what, help, .. } => (what.clone(), Some(help.clone())),
            Self::Unsupported { what, help, .. } => ((*what).into(), Some((*help).into())),
        }
    }
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cause, help) = self.parts();
        sentence(f, self.name(), &cause, help.as_deref())
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open { source, .. } | Self::Read { source, .. } | Self::Write { source, .. } => {
                Some(source)
            }
            _ => None,
        }
    }
}

/// The message of an I/O error with the symbolic error number, as in
/// `No space left on device (ENOSPC)`.
fn cause(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or(&text);
            match symbol(number) {
                Some(name) => format!("{text} ({name})"),
                None => format!("{text} (error {number})"),
            }
        }
        None => error.to_string(),
    }
}

/// The next step, for errors that have one.
fn advice(error: &io::Error) -> Option<Cow<'static, str>> {
    let help = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "check the path",
        io::ErrorKind::PermissionDenied => "check who may access it",
        io::ErrorKind::StorageFull => "free space, or rotate with -C and -W",
        io::ErrorKind::QuotaExceeded => "raise the quota, or rotate with -C and -W",
        io::ErrorKind::FileTooLarge => "raise the file size limit (ulimit -f), or rotate",
        io::ErrorKind::ReadOnlyFilesystem => "choose another directory",
        io::ErrorKind::IsADirectory => "name a file in it",
        io::ErrorKind::TimedOut => "the rest was counted as dropped",
        _ => return None,
    };
    Some(help.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_stays_on_one_line() {
        let (name, what) = ("compression", "'a\nb' is none".to_owned());
        let error = CaptureError::Invalid { name, what, help: "give\tlz4".into() };
        assert_eq!(error.to_string(), "compression: 'a\\nb' is none; give\\tlz4");
    }
}
