//! One line of text per packet, as tcpdump prints.
//!
//! A [`Printer`] is given packets one after the other and writes text into memory of the caller. It knows no ports and
//! no files. Any bytes may come in.

mod style;

pub use style::{Dump, Precision, Style, Time};

use std::fmt::Write as _;

/// One captured packet, and where it was seen.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Nanoseconds since the Unix epoch; 0 if unknown.
    pub timestamp: u64,
    /// The interface, and the queue if that is known, as in `eth0 rx2`.
    pub place: &'a str,
    /// LINKTYPE_ value of that interface.
    pub link_type: u16,
    /// Bytes it had, before any snap length.
    pub original_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
    /// What a file says of it.
    pub comment: Option<&'a str>,
}

/// Prints packets in order of their capture.
#[derive(Debug)]
pub struct Printer {
    style: Style,
}

impl Printer {
    /// One that has seen nothing yet.
    pub fn new(style: Style) -> Self {
        Self { style }
    }

    /// Adds the lines of the next packet to `text`.
    pub fn print(&mut self, packet: &Packet<'_>, text: &mut String) {
        let _ = self.style;
        let _ = writeln!(text, "{} length {}", packet.place, packet.original_len);
    }
}
