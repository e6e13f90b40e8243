//! RX, TX and OTHER: the kind of queue that a packet belongs to.

use std::fmt;
use std::str::FromStr;

use crate::error::CaptureError;

/// The kind of queue that a packet belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Received through an RX queue.
    #[default]
    Rx = 0,
    /// Transmitted by the host through a TX queue.
    Tx = 1,
    /// Received without a queue.
    Other = 2,
}

impl Class {
    /// `rx`, `tx` or `other`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Tx => "tx",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Class {
    type Err = CaptureError;

    fn from_str(s: &str) -> Result<Self, CaptureError> {
        match s {
            "rx" => Ok(Self::Rx),
            "tx" => Ok(Self::Tx),
            "other" => Ok(Self::Other),
            _ => Err(CaptureError::Invalid {
                name: "class",
                what: format!("{s:?} is no class of packets"),
                help: "give rx, tx or other".into(),
            }),
        }
    }
}
