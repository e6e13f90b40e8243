//! Reasons why the kernel engine cannot send.

use std::fmt;

use super::limits::{MAX_HEAD, MAX_STREAMS};

/// Why the kernel engine cannot send a set of streams. The sockets engine may be able to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelRefusal {
    /// The port is not a network interface: its specification.
    Port(String),
    /// The names of the missing capabilities.
    Privilege(String),
    /// The interface does not transmit redirected frames: the reason and the remedy.
    Interface(String),
    /// A frame is too long.
    TooLong {
        /// Its length.
        bytes: usize,
        /// The allowed length.
        most: usize,
    },
    /// Too many streams: their number.
    Streams(usize),
    /// There are several streams, and at least one has a rate. The engine paces only a single
    /// stream.
    Rates,
    /// The intervals of the schedule differ: bursts, or a rate in bits with several packet lengths.
    Intervals,
    /// A program cannot compute the values of a field.
    Values,
    /// A changing field is too far from the start of the packet.
    TooDeep,
    /// There are no streams: the packets come from elsewhere, such as a file.
    NoStreams,
    /// The kernel is too old or returns an error: the error text.
    Kernel(String),
}

impl fmt::Display for KernelRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(spec) => write!(f, "{spec} is no network interface"),
            Self::Privilege(names) => write!(f, "it needs {names}"),
            Self::Interface(why) => f.write_str(why),
            Self::TooLong { bytes, most } => {
                write!(f, "a frame has {bytes} bytes, of at most {most}")
            }
            Self::Streams(streams) => {
                write!(f, "{streams} streams, of at most {}", MAX_STREAMS)
            }
            Self::Rates => f.write_str("several streams with separate rates"),
            Self::Intervals => {
                f.write_str("intervals differ: bursts, or bits per second with several sizes")
            }
            Self::Values => {
                f.write_str("a random range or a 128-bit counter that a program cannot compute")
            }
            Self::TooDeep => {
                write!(f, "a field changes beyond byte {}", MAX_HEAD)
            }
            Self::NoStreams => f.write_str("the packets come from a file"),
            Self::Kernel(answer) => f.write_str(answer),
        }
    }
}

impl std::error::Error for KernelRefusal {}
