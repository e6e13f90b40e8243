//! The engine that sends: sockets, or an XDP program in the kernel.

use std::fmt;
use std::str::FromStr;

use wirelane::{Error, Result};

/// The engine that sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendEngine {
    /// The fastest engine that supports the requested packets and port.
    #[default]
    Auto,
    /// A thread for every TX queue, through any port ([`sockets`](crate::sockets)).
    Sockets,
    /// An XDP program that writes and sends the frames in the kernel ([`kernel`](crate::kernel)).
    Kernel,
}

impl SendEngine {
    /// The name in arguments and summaries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Sockets => "sockets",
            Self::Kernel => "kernel",
        }
    }
}

impl fmt::Display for SendEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for SendEngine {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::Auto, Self::Sockets, Self::Kernel];
        let found = all.into_iter().find(|engine| engine.as_str() == text);
        found.ok_or_else(|| Error::usage("engine", "write auto, sockets or kernel"))
    }
}
