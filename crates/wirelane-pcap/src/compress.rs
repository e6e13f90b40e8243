//! gzip and zstd: each written chunk is a member (gzip) or frame (zstd) of its own.
//!
//! Both formats define a file as a sequence of those, so a file that is cut after any chunk - by SIGKILL or by a full
//! disk - is a complete compressed file of whole blocks.
//!
//! Programs must accept more than one frame (RFC 8878 section 3.1; RFC 1952 section 2.2). Wireshark 4.0 does so for
//! gzip but not for zstd: it looks for the next frame at the start of its buffer instead of where it is
//! (`check_for_zstd_compression` in wiretap/file_wrappers.c, corrected in later versions), and complains after the
//! first MiB. `zstd -dc FILE | wireshark -k -i -` reads such a file there. This note can go with that version.

use std::io::{self, Read, Write};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::CompressionLevel;

/// Bytes asked of a compressed file at once.
const CHUNK: usize = 128 * 1024;
/// Largest zstd window that is accepted, in bytes, so that a frame header cannot ask for any amount of memory. It is
/// what the zstd program accepts without `--long`.
const MAX_ZSTD_WINDOW: u64 = 128 * 1024 * 1024;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// gzip at its fastest level.
    Gzip,
    /// zstd at its fastest level.
    Zstd,
}

impl Compression {
    /// What the suffix of a path asks for: `.gz` or `.zst`.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "gz" => Some(Self::Gzip),
            "zst" => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Suffix of file names, with its dot.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }

    /// What the first bytes of a file say.
    pub(crate) fn of_magic(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            // A skippable frame (RFC 8878 section 3.1.2), with which all files of pzstd begin: it says how long the
            // frame behind it is.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Replaces `out` with `data`, compressed.
    pub(crate) fn compress(self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        match self {
            Self::Gzip => {
                let mut encoder = GzEncoder::new(out, flate2::Compression::fast());
                encoder.write_all(data)?;
                encoder.finish()?;
            }
            Self::Zstd => ruzstd::encoding::compress(data, out, CompressionLevel::Fastest),
        }
        Ok(())
    }

    /// A stream of the decompressed content of `source`.
    pub(crate) fn decompress<R: Read + Send + 'static>(self, source: R) -> Box<dyn Read + Send> {
        let source = io::BufReader::with_capacity(CHUNK, source);
        match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(source)),
            Self::Zstd => {
                Box::new(ZstdFrames { source, decoder: FrameDecoder::new(), in_frame: false })
            }
        }
    }
}

/// Decodes a sequence of zstd frames; the decoder of the crate stops after one.
struct ZstdFrames<R> {
    source: io::BufReader<R>,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: Read> ZstdFrames<R> {
    /// Starts the next frame; false at the end of the source.
    fn next_frame(&mut self) -> io::Result<bool> {
        self.decoder.set_max_window_size(MAX_ZSTD_WINDOW);
        loop {
            if io::BufRead::fill_buf(&mut self.source)?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.in_frame = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut (&mut self.source).take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(damage(&error)),
            }
        }
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.in_frame {
                while self.decoder.can_collect() < buffer.len() && !self.decoder.is_finished() {
                    let missing = buffer.len() - self.decoder.can_collect();
                    let strategy = BlockDecodingStrategy::UptoBytes(missing);
                    self.decoder
                        .decode_blocks(&mut self.source, strategy)
                        .map_err(|error| damage(&error))?;
                }
                let count = self.decoder.read(buffer)?;
                if count > 0 || buffer.is_empty() {
                    return Ok(count);
                }
                self.in_frame = false;
                // The decoder of the crate reads the checksum and leaves comparing it to us.
                let stated = self.decoder.get_checksum_from_data();
                if stated.is_some() && stated != self.decoder.get_calculated_checksum() {
                    let text = "zstd: the content of a frame does not match its checksum";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
            if !self.next_frame()? {
                return Ok(0);
            }
        }
    }
}

/// Turns an error of the decoder into one of I/O, telling a short file from a damaged one by the cause at its bottom.
fn damage(error: &FrameDecoderError) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(io) = current.downcast_ref::<io::Error>() {
            return match io.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::new(io.kind(), io.to_string()),
            };
        }
        cause = current.source();
    }
    io::Error::new(io::ErrorKind::InvalidData, format!("zstd: {error}"))
}
