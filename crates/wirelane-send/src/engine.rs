//! Who sends: sockets, or the kernel by itself.

use std::fmt;
use std::str::FromStr;

/// Who sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// The fastest that can do what is asked for.
    #[default]
    Auto,
    /// A thread for every TX queue, through any port ([`sockets`](crate::sockets)).
    Sockets,
    /// The kernel, with a program that writes and sends the frames ([`kernel`](crate::kernel)).
    Kernel,
}

impl Engine {
    /// As in arguments and summaries.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Sockets => "sockets",
            Self::Kernel => "kernel",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Auto, Self::Sockets, Self::Kernel];
        let found = all.into_iter().find(|engine| engine.as_str() == text);
        found.ok_or_else(|| "write auto, sockets or kernel".into())
    }
}
