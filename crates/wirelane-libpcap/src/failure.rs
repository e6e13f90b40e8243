//! Errors in the form that C gets: a status and a text.

use std::ffi::c_int;
use std::fmt;

use wirelane_os::error::words;

use crate::abi::status;

/// A status below 0 and the text for `pcap_geterr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PcapFailure {
    pub(crate) status: c_int,
    pub(crate) text: String,
}

impl PcapFailure {
    /// `PCAP_ERROR` with a text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { status: status::ERROR, text: text.into() }
    }

    /// A status without a text.
    pub(crate) fn status(status: c_int) -> Self {
        Self { status, text: String::new() }
    }

    /// libpcap's text for a failed system call: `what: Operation not permitted`.
    pub(crate) fn errno(what: &str, errno: i32) -> Self {
        Self::new(format!("{what}: {}", strerror(errno)))
    }

    #[must_use]
    pub(crate) fn with_status(self, status: c_int) -> Self {
        Self { status, ..self }
    }
}

impl From<wirelane::Error> for PcapFailure {
    fn from(error: wirelane::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl fmt::Display for PcapFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The C library's text for an errno.
pub(crate) fn strerror(errno: i32) -> String {
    words(&std::io::Error::from_raw_os_error(errno))
}
