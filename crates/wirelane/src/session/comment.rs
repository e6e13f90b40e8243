//! The driver's metadata of a packet, as a comment of the packet's block in a file.
//!
//! No other option of a block fits: `epb_hash` names an algorithm, which the driver does not
//! report, and there is no option for a second clock.

use std::io::Write;

use crate::frame::Frame;

/// The driver's metadata of a packet: its hash, and the time of the hardware's clock.
pub struct Comment {
    text: [u8; Self::LONGEST],
    len: usize,
}

impl Comment {
    /// Bytes of the longest comment.
    pub const LONGEST: usize = 152;

    /// The comment for this frame; `None` if the driver reported no metadata.
    #[inline]
    pub fn of(frame: &Frame) -> Option<Self> {
        frame.has_hints().then(|| Self::new(frame))
    }

    #[cold]
    fn new(frame: &Frame) -> Self {
        let mut text = [0; Self::LONGEST];
        let mut rest = &mut text[..];
        // There is room for both.
        if let Some(time) = frame.hardware_timestamp() {
            let (seconds, nanoseconds) = (time / 1_000_000_000, time % 1_000_000_000);
            let _ = write!(rest, "rx_timestamp={seconds}.{nanoseconds:09} ");
        }
        if let Some(hash) = frame.rx_hash() {
            let _ = write!(rest, "rx_hash=0x{:08x} ({})", hash.value, hash.kind);
        }
        let left = rest.len();
        Self { len: text.len() - left, text }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        let text = self.text.get(..self.len).and_then(|text| str::from_utf8(text).ok());
        text.unwrap_or_default().trim_end()
    }
}
