//! Why the kernel cannot send something by itself.

use std::fmt;

use super::limits::{MAX_HEAD, MAX_STREAMS};

/// Why the kernel cannot send something by itself: sockets can.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The port is not a network interface as such.
    Port(String),
    /// Capabilities are missing, by name.
    Privilege(String),
    /// The interface does not transmit redirected frames; what to do about it.
    Interface(String),
    /// A frame is longer than what it can be.
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest.
        most: usize,
    },
    /// More streams than programs.
    Streams(usize),
    /// Several streams, of which some have a rate: a program keeps to one schedule.
    Rates,
    /// A schedule of unequal intervals: bursts, or a rate in bits with several lengths.
    Intervals,
    /// A field changes in a way that is too much for a program.
    Values,
    /// A field lies too far behind the start of the packet.
    TooDeep,
    /// Packets come from a file or elsewhere, not from streams.
    NoStreams,
    /// The kernel is too old or refuses; its answer.
    Kernel(String),
}

impl fmt::Display for Refusal {
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
            Self::Rates => f.write_str("several streams at rates of their own"),
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

impl std::error::Error for Refusal {}
