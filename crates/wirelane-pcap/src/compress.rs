//! Compresses chunks: each chunk becomes a separate gzip member, lz4 frame or zstd frame.
//!
//! These formats define a file as a sequence of frames. A file that is cut after any chunk - by
//! SIGKILL or by a full disk - is a complete compressed file of whole blocks. Several threads can
//! compress chunks.
//!
//! Programs must accept more than one frame (RFC 8878 section 3.1; RFC 1952 section 2.2; "Frame
//! Concatenation" in lz4_Frame_format.md). Wireshark 4.0 accepts several gzip members, but only one
//! lz4 or zstd frame. It looks for the next frame at the start of its buffer instead of at the
//! current position (`check_for_lz4_compression` and `check_for_zstd_compression` in
//! wiretap/file_wrappers.c, corrected in later versions), and reports an error after it refills its
//! buffer. A single frame with flushed blocks would work there, but several threads could not write
//! it, and a crash would damage the file for every reader. `zstd -dc FILE | wireshark -k -i -`
//! reads such a file. Delete this note when Wireshark 4.0 is out of use.

use std::io::{self, Write};

use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockSize, FrameEncoder, FrameInfo};
use zstd_safe::{CCtx, CParameter, compress_bound};

use crate::compression::{Compression, CompressionOptions};

/// Compresses one chunk after the other, and reuses its working memory.
pub(crate) enum Compressor {
    /// With a level of zlib.
    Gzip(flate2::Compression),
    Lz4(Box<FrameEncoder<Vec<u8>>>),
    Zstd(CCtx<'static>),
}

impl Compressor {
    /// # Errors
    /// Not enough memory.
    pub(crate) fn new(options: CompressionOptions) -> io::Result<Self> {
        let level = options.level;
        Ok(match options.compression {
            Compression::Gzip => Self::Gzip(flate2::Compression::new(zlib_level(level))),
            Compression::Lz4 => {
                // A chunk is one block or two. The lz4 program also writes the checksum.
                let info = FrameInfo::new().block_size(BlockSize::Max1MB).content_checksum(true);
                Self::Lz4(Box::new(FrameEncoder::with_frame_info(info, Vec::new())))
            }
            Compression::Zstd => {
                let mut context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
                let parameters =
                    [CParameter::CompressionLevel(level.into()), CParameter::ChecksumFlag(true)];
                for parameter in parameters {
                    context.set_parameter(parameter).map_err(zstd_error)?;
                }
                Self::Zstd(context)
            }
        })
    }

    /// Replaces `out` with `data`, compressed.
    ///
    /// # Errors
    /// Not enough memory.
    pub(crate) fn compress(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.clear();
        match self {
            Self::Gzip(level) => {
                let mut encoder = GzEncoder::new(out, *level);
                encoder.write_all(data)?;
                encoder.finish()?;
            }
            Self::Lz4(encoder) => {
                *encoder.get_mut() = std::mem::take(out);
                encoder.write_all(data)?;
                encoder.try_finish()?;
                *out = std::mem::take(encoder.get_mut());
            }
            Self::Zstd(context) => {
                out.reserve(compress_bound(data.len()));
                context.compress2(out, data).map_err(zstd_error)?;
            }
        }
        Ok(())
    }
}

/// The level of `zlib-rs` that corresponds to a level of the gzip program. The first level of
/// `zlib-rs` is faster than any of gzip's, and makes files a tenth larger.
fn zlib_level(level: u8) -> u32 {
    u32::from(level.max(2))
}

/// The error message of the zstd library for this code.
pub(crate) fn zstd_error(code: usize) -> io::Error {
    let cause = zstd_safe::get_error_name(code);
    io::Error::new(io::ErrorKind::InvalidData, format!("zstd: {cause}"))
}
