//! Reads compressed files: any sequence of gzip members, lz4 frames or zstd frames.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::compress::zstd_error;
use crate::compression::Compression;

/// Bytes asked of a compressed file at once.
const CHUNK: usize = 128 * 1024;
/// Largest zstd window that is accepted, as a power of 2, so that a frame header cannot ask for any amount of memory:
/// 128 MiB, which is what the zstd program accepts without `--long`.
const MAX_ZSTD_WINDOW: u32 = 27;

/// A stream of the decompressed content of `source`. If that ends inside a frame, so does the stream, with
/// [`io::ErrorKind::UnexpectedEof`] behind what could be decompressed.
///
/// # Errors
/// Not enough memory.
pub(crate) fn decompress<R: Read + Send + 'static>(
    compression: Compression,
    source: R,
) -> io::Result<Box<dyn Read + Send>> {
    let source = BufReader::with_capacity(CHUNK, source);
    Ok(match compression {
        Compression::Gzip => Box::new(MultiGzDecoder::new(source)),
        Compression::Lz4 => Box::new(Lz4Frames::new(source)),
        Compression::Zstd => Box::new(ZstdFrames::new(source)?),
    })
}

/// Decodes a sequence of zstd frames and skippable frames.
struct ZstdFrames<R> {
    source: BufReader<R>,
    context: DCtx<'static>,
    in_frame: bool,
}

impl<R> ZstdFrames<R> {
    fn new(source: BufReader<R>) -> io::Result<Self> {
        let mut context = DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        context.set_parameter(DParameter::WindowLogMax(MAX_ZSTD_WINDOW)).map_err(zstd_error)?;
        Ok(Self { source, context, in_frame: false })
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let bytes = self.source.fill_buf()?;
            let is_end = bytes.is_empty();
            if is_end && !self.in_frame {
                return Ok(0);
            }
            let mut input = InBuffer::around(bytes);
            let mut output = OutBuffer::around(&mut *buffer);
            let left = self.context.decompress_stream(&mut output, &mut input);
            let (taken, given) = (input.pos(), output.pos());
            self.in_frame = left.map_err(zstd_error)? != 0;
            self.source.consume(taken);
            if given > 0 {
                return Ok(given);
            }
            if is_end && self.in_frame {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Decodes a sequence of lz4 frames and skippable frames. The decoder of the crate ends after each frame, and ends in
/// the same way when the source does, wherever that is.
struct Lz4Frames<R: Read> {
    decoder: FrameDecoder<Watched<R>>,
    in_frame: bool,
}

impl<R: Read> Lz4Frames<R> {
    fn new(source: BufReader<R>) -> Self {
        let source = Watched { source, has_ended: false };
        Self { decoder: FrameDecoder::new(source), in_frame: false }
    }

    /// Skips what may be skipped, and starts the next frame; false at the end of the source.
    fn next_frame(&mut self) -> io::Result<bool> {
        loop {
            let source = &mut self.decoder.get_mut().source;
            match source.fill_buf()? {
                [] => return Ok(false),
                // Not the first byte of an lz4 frame; the others may still be on their way through a pipe.
                [0x50..=0x5f, ..] => {}
                _ => {
                    self.in_frame = true;
                    return Ok(true);
                }
            }
            let mut head = [0; 8];
            source.read_exact(&mut head)?;
            let [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d] = head else {
                let text = "lz4: what follows a frame is none";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            };
            let length = u64::from(u32::from_le_bytes([a, b, c, d]));
            if io::copy(&mut source.take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl<R: Read> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.in_frame && !self.next_frame()? {
                return Ok(0);
            }
            let given = self.decoder.read(buffer)?;
            if given > 0 {
                return Ok(given);
            }
            if self.decoder.get_ref().has_ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.in_frame = false;
        }
    }
}

/// A source that remembers whether more was asked of it than it has.
struct Watched<R> {
    source: BufReader<R>,
    has_ended: bool,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.has_ended |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}
