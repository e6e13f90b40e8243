//! The error type of this crate.

use core::fmt;

/// Why bytes are not the expected header, or why a value cannot be emitted or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireError {
    /// The buffer ends before the header, or before the end that the header states.
    Truncated {
        /// Bytes needed.
        needed: usize,
        /// Bytes present.
        have: usize,
    },
    /// A field has a value that its standard forbids; the text names the field.
    Malformed(&'static str),
    /// The packet has no such header or field; the text names it.
    Absent(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { needed, have } => {
                write!(f, "truncated: {needed} bytes needed, {have} present")
            }
            Self::Malformed(what) => write!(f, "malformed: {what}"),
            Self::Absent(what) => write!(f, "the packet has no {what}"),
        }
    }
}

impl core::error::Error for WireError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn display() {
        let truncated = WireError::Truncated { needed: 20, have: 3 };
        assert_eq!(truncated.to_string(), "truncated: 20 bytes needed, 3 present");
        assert_eq!(WireError::Malformed("IPv4 version").to_string(), "malformed: IPv4 version");
        let absent = WireError::Absent("IPv4 header");
        assert_eq!(absent.to_string(), "the packet has no IPv4 header");
    }
}
