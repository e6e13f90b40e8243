//! A growing window over a byte stream: the decoders see whole blocks without copying them.

use std::io::{self, Read};

use crate::error::CaptureError;

/// Bytes requested from the source at once: enough to make the cost of system calls negligible, and
/// few enough for the L2 cache.
const CHUNK: usize = 256 * 1024;

/// The part of a byte stream that is in memory.
pub(crate) struct StreamWindow<R> {
    source: R,
    name: String,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the stream of `buffer[start]`.
    offset: u64,
    at_end: bool,
    /// A compressed stream ended inside its last frame.
    cut: bool,
}

/// The result of [`StreamWindow::need`].
#[derive(PartialEq, Eq)]
pub(crate) enum Availability {
    /// The bytes are there.
    Whole,
    /// The stream ends before them, inside a block or inside a compressed frame.
    Partial,
    /// The stream ends here.
    Empty,
}

impl<R: Read> StreamWindow<R> {
    pub(crate) fn new(source: R, name: String) -> Self {
        Self {
            source,
            name,
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            offset: 0,
            at_end: false,
            cut: false,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes from the current position that are in memory.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// The first words from the current position, in the byte order of the file; 0 where fewer are
    /// in memory.
    #[inline]
    pub(crate) fn words<const N: usize>(&self) -> [u32; N] {
        let words = self.bytes().as_chunks::<4>().0.first_chunk::<N>();
        words.map_or([0; N], |words| words.map(u32::from_ne_bytes))
    }

    /// Bytes of the buffer at a position of [`StreamWindow::position`].
    #[inline]
    pub(crate) fn slice(&self, start: usize, len: usize) -> &[u8] {
        self.buffer.get(start..).and_then(|rest| rest.get(..len)).unwrap_or_default()
    }

    /// As [`StreamWindow::slice`], mutable.
    pub(crate) fn slice_mut(&mut self, start: usize, len: usize) -> &mut [u8] {
        self.buffer.get_mut(start..).and_then(|rest| rest.get_mut(..len)).unwrap_or_default()
    }

    /// Position of the current byte in the buffer; valid until the next call of
    /// [`StreamWindow::need`].
    #[inline]
    pub(crate) fn position(&self) -> usize {
        self.start
    }

    /// Makes sure that `len` bytes from the current position are in memory. Memory grows only with
    /// the bytes that were read, so a length field alone cannot cause a large allocation.
    #[inline]
    pub(crate) fn need(&mut self, len: usize) -> Result<Availability, CaptureError> {
        if self.end - self.start >= len {
            return Ok(Availability::Whole);
        }
        self.fill(len)
    }

    /// Skips `len` bytes that are in memory ([`StreamWindow::need`]).
    #[inline]
    pub(crate) fn consume(&mut self, len: usize) {
        let len = len.min(self.end - self.start);
        self.start += len;
        self.offset += len as u64;
    }

    #[cold]
    fn fill(&mut self, len: usize) -> Result<Availability, CaptureError> {
        while self.end - self.start < len {
            if self.at_end {
                let clean = self.end == self.start && !self.cut;
                return Ok(if clean { Availability::Empty } else { Availability::Partial });
            }
            if self.start > 0 {
                self.buffer.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            if self.end == self.buffer.len() {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.source.read(room) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The compressed stream is cut: the bytes decompressed so far are valid.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    self.at_end = true;
                    self.cut = true;
                }
                Err(source) => {
                    let offset = self.offset + (self.end - self.start) as u64;
                    // The bytes stay in the buffer, so that reading can continue when the source
                    // has more.
                    self.at_end = source.kind() != io::ErrorKind::WouldBlock;
                    return Err(CaptureError::Read { name: self.name.clone(), offset, source });
                }
            }
        }
        Ok(Availability::Whole)
    }
}
