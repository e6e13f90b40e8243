//! One line of text per packet, as tcpdump prints.
//!
//! A [`Printer`] receives packets one after the other and writes text into memory of the caller. It
//! does not depend on ports or files, and accepts any bytes.
//!
//! Reading order: `walk` steps from layer to layer, `link`, `network` and `transport` print them,
//! and `layer` is the interface between them. `line` formats text, and `bytes` holds the captured
//! part of a packet.

mod bytes;
mod dump;
mod layer;
mod line;
mod link;
mod network;
mod style;
mod time;
mod transport;
mod walk;

pub use style::{Dump, Precision, Style, Time};

use bytes::CapturedBytes;
use line::TextLine;
use time::PrintClock;
use transport::conversations::Conversations;

/// One captured packet, and its interface.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Nanoseconds since the Unix epoch; 0 if unknown.
    pub timestamp: u64,
    /// The interface, and the queue if known, as in `eth0 rx2`; may be empty.
    pub place: &'a str,
    /// LINKTYPE_ value of that interface.
    pub link_type: u16,
    /// Original length in bytes, before any snap length.
    pub original_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
    /// The comment of the packet in its file.
    pub comment: Option<&'a str>,
}

/// Prints packets in order of their capture.
#[derive(Debug)]
pub struct Printer {
    style: Style,
    printed: u64,
    clock: PrintClock,
    conversations: Conversations,
}

impl Printer {
    /// A printer without earlier packets.
    pub fn new(style: Style) -> Self {
        Self {
            style,
            printed: 0,
            clock: PrintClock::default(),
            conversations: Conversations::default(),
        }
    }

    /// Adds the lines of the next packet to `text`. The last one ends with a line feed.
    pub fn print(&mut self, packet: &Packet<'_>, text: &mut String) {
        let mut line = TextLine::new(text);
        self.printed += 1;
        if self.style.numbered {
            line.spaced(self.printed, 5).put("  ");
        }
        self.clock.print(&mut line, &self.style, packet.timestamp);
        if !packet.place.is_empty() {
            line.foreign(packet.place.as_bytes()).put(" ");
        }
        // A file may state a shorter length than the captured one.
        let len = usize::try_from(packet.original_len).unwrap_or(usize::MAX).max(packet.data.len());
        let bytes = CapturedBytes::new(packet.data, len);
        walk::print(&mut line, &self.style, &mut self.conversations, packet.link_type, bytes);
        if let Some(comment) = packet.comment {
            line.put(" # ").foreign(comment.as_bytes());
        }
        self.dump(&mut line, packet);
        line.put("\n");
    }

    fn dump(&self, line: &mut TextLine<'_>, packet: &Packet<'_>) {
        let payload = |link| {
            let skipped = if link { 0 } else { link::header_len(packet.link_type, packet.data) };
            packet.data.get(skipped..).unwrap_or_default()
        };
        match self.style.dump {
            Dump::None => {}
            Dump::Ascii { link } => dump::ascii(line, payload(link)),
            Dump::Hex { link } => dump::hex(line, payload(link), false),
            Dump::Both { link } => dump::hex(line, payload(link), true),
        }
    }
}

#[cfg(test)]
mod tests;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
