//! Replaces compression in builds without the feature `compression`: an error that names the
//! feature.

use std::convert::Infallible;
use std::io::{self, Read};

use crate::compression::{Compression, CompressionOptions};

fn missing(compression: Compression) -> io::Error {
    let name = compression.name();
    let text = format!("{name}: this program was built without the feature `compression`");
    io::Error::new(io::ErrorKind::Unsupported, text)
}

/// No value exists.
pub(crate) struct Compressor(Infallible);

impl Compressor {
    pub(crate) fn new(options: CompressionOptions) -> io::Result<Self> {
        Err(missing(options.compression))
    }

    pub(crate) fn compress(&mut self, _: &[u8], _: &mut Vec<u8>) -> io::Result<()> {
        match self.0 {}
    }
}

pub(crate) fn decompress<R: Read + Send + 'static>(
    compression: Compression,
    _: R,
) -> io::Result<Box<dyn Read + Send>> {
    Err(missing(compression))
}

/// Compresses pieces, each into a separate frame: not in this build.
pub struct FrameCompressor(Infallible);

impl FrameCompressor {
    /// Not in this build.
    ///
    /// # Errors
    /// Always.
    pub fn new(options: CompressionOptions) -> io::Result<Self> {
        Err(missing(options.compression))
    }

    /// The most bytes of a frame of `len` bytes.
    #[must_use]
    pub fn bound(&self, _: usize) -> usize {
        match self.0 {}
    }

    /// How many bytes surely have a frame of `room` bytes at most.
    #[must_use]
    pub fn fitting(&self, _: usize) -> usize {
        match self.0 {}
    }

    /// Writes a frame of `data` to the start of `out`.
    ///
    /// # Errors
    /// There is none.
    pub fn compress(&mut self, _: &[u8], _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}

/// Decompresses frames: not in this build.
pub struct FrameDecompressor(Infallible);

impl FrameDecompressor {
    /// Not in this build.
    ///
    /// # Errors
    /// Always.
    pub fn new(compression: Compression) -> io::Result<Self> {
        Err(missing(compression))
    }

    /// Fills `out` with the content of `frame`.
    ///
    /// # Errors
    /// There is none.
    pub fn decompress(&mut self, _: &[u8], _: &mut [u8]) -> io::Result<()> {
        match self.0 {}
    }
}
