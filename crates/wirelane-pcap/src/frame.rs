//! Compresses and decompresses pieces of memory: each piece becomes an lz4 or zstd frame, in memory
//! of the caller.
//!
//! Frames are independent, so `lz4 -dc` or `zstd -dc` reads a file of frames, and each frame can be
//! read without the earlier ones.

use std::io;

use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use zstd_safe::{CCtx, CParameter, DCtx, compress_bound};

use crate::compress::zstd_error;
use crate::compression::{Compression, CompressionOptions};

/// The header of every lz4 frame written here (lz4_Frame_format.md, version 1.6.3): the magic
/// number; version 1 and independent blocks, without checksums or content size; blocks of up to 1
/// MiB; the checksum of these two bytes.
const LZ4_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x60, 0x51];
/// The most bytes of a block before compression.
const LZ4_BLOCK: usize = 1 << 20;
/// Set in the size of a block that is not compressed.
const LZ4_PLAIN: u32 = 1 << 31;
/// The size that ends a frame.
const LZ4_END: [u8; 4] = [0; 4];

/// Compresses pieces, each into a separate frame. Reuses its working memory.
pub struct FrameCompressor(CodecState);

enum CodecState {
    Lz4 { table: CompressTable, block: Vec<u8> },
    Zstd(CCtx<'static>),
}

impl FrameCompressor {
    /// Compresses with lz4 or zstd.
    ///
    /// # Errors
    /// Not enough memory, or another compression.
    pub fn new(options: CompressionOptions) -> io::Result<Self> {
        Ok(Self(match options.compression {
            Compression::Lz4 => {
                CodecState::Lz4 { table: CompressTable::large(), block: Vec::new() }
            }
            Compression::Zstd => {
                let mut context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
                let level = CParameter::CompressionLevel(options.level.into());
                for parameter in [level, CParameter::ChecksumFlag(true)] {
                    context.set_parameter(parameter).map_err(zstd_error)?;
                }
                CodecState::Zstd(context)
            }
            Compression::Gzip => return Err(no_frames()),
        }))
    }

    /// The largest size of a frame of `len` bytes.
    #[must_use]
    pub fn bound(&self, len: usize) -> usize {
        match self.0 {
            CodecState::Lz4 { .. } => {
                let around = LZ4_HEADER.len() + LZ4_END.len();
                len.saturating_add(around + 4 * len.div_ceil(LZ4_BLOCK))
            }
            CodecState::Zstd(_) => compress_bound(len),
        }
    }

    /// The number of bytes whose frame certainly fits into `room` bytes; close to the maximum.
    #[must_use]
    pub fn fitting(&self, room: usize) -> usize {
        // Each byte of data adds at least one byte to the bound. So the data is too long by at most
        // the number of bytes that its bound exceeds the room.
        let mut len = room;
        while len > 0 && self.bound(len) > room {
            len = len.saturating_sub(self.bound(len) - room);
        }
        len
    }

    /// Writes a frame of `data` to the start of `out`, and returns its length. `out` has at least
    /// [`FrameCompressor::bound`] bytes.
    ///
    /// # Errors
    /// Not enough memory, or not enough room.
    pub fn compress(&mut self, data: &[u8], out: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            CodecState::Zstd(context) => context.compress2(out, data).map_err(zstd_error),
            CodecState::Lz4 { table, block } => {
                let mut to = MemoryFiller { out, len: 0 };
                to.put(&LZ4_HEADER)?;
                for plain in data.chunks(LZ4_BLOCK) {
                    block.resize(get_maximum_output_size(plain.len()), 0);
                    let len = compress_into_with_table(plain, block, table).ok();
                    match len.and_then(|len| block.get(..len)) {
                        Some(packed) if packed.len() < plain.len() => {
                            to.put(&(packed.len() as u32).to_le_bytes())?;
                            to.put(packed)?;
                        }
                        _ => {
                            to.put(&(plain.len() as u32 | LZ4_PLAIN).to_le_bytes())?;
                            to.put(plain)?;
                        }
                    }
                }
                to.put(&LZ4_END)?;
                Ok(to.len)
            }
        }
    }
}

/// Decompresses frames of [`FrameCompressor`].
pub struct FrameDecompressor(Decompressor);

enum Decompressor {
    Lz4,
    Zstd(DCtx<'static>),
}

impl FrameDecompressor {
    /// Decompresses lz4 or zstd.
    ///
    /// # Errors
    /// Not enough memory, or another compression.
    pub fn new(compression: Compression) -> io::Result<Self> {
        Ok(Self(match compression {
            Compression::Lz4 => Decompressor::Lz4,
            Compression::Zstd => {
                Decompressor::Zstd(DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?)
            }
            Compression::Gzip => return Err(no_frames()),
        }))
    }

    /// Fills `out` with the content of `frame`, which must have exactly this length. Writes only to
    /// `out`, and its memory use does not depend on the frame.
    ///
    /// # Errors
    /// The frame is damaged, has trailing bytes, or has another length.
    pub fn decompress(&mut self, frame: &[u8], out: &mut [u8]) -> io::Result<()> {
        let len = match &mut self.0 {
            Decompressor::Zstd(context) => context.decompress(out, frame).map_err(zstd_error)?,
            Decompressor::Lz4 => lz4_content(frame, out).ok_or_else(|| damaged("lz4: damaged"))?,
        };
        if len == out.len() { Ok(()) } else { Err(damaged("its content is shorter than it was")) }
    }
}

/// The number of bytes of `out` that the frame fills; `None` if it is damaged, too long, or no
/// frame of [`FrameCompressor`].
fn lz4_content(frame: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut rest = frame.strip_prefix(&LZ4_HEADER)?;
    let mut filled = 0;
    loop {
        let (size, blocks) = rest.split_first_chunk::<4>()?;
        let size = u32::from_le_bytes(*size);
        if size == 0 {
            return blocks.is_empty().then_some(filled);
        }
        let (block, behind) = blocks.split_at_checked((size & !LZ4_PLAIN) as usize)?;
        let room = out.get_mut(filled..)?;
        filled += if size & LZ4_PLAIN == 0 {
            decompress_into(block, room).ok()?
        } else {
            room.get_mut(..block.len())?.copy_from_slice(block);
            block.len()
        };
        rest = behind;
    }
}

/// Fills memory from its start.
struct MemoryFiller<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl MemoryFiller<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = self.out.get_mut(self.len..).and_then(|rest| rest.get_mut(..bytes.len()));
        room.ok_or(io::ErrorKind::WriteZero)?.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }
}

fn no_frames() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "only lz4 and zstd have frames")
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(compression: Compression) -> (FrameCompressor, FrameDecompressor) {
        let compressor = FrameCompressor::new(CompressionOptions::fastest(compression)).unwrap();
        (compressor, FrameDecompressor::new(compression).unwrap())
    }

    /// Bytes of which the first part compresses badly and the second part well.
    fn bytes(noise: usize, zeros: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let next = |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..noise).map(next).chain((0..zeros).map(|_| 0)).collect()
    }

    #[test]
    fn content_survives() {
        for compression in [Compression::Lz4, Compression::Zstd] {
            let (mut compressor, mut decompressor) = pair(compression);
            for (noise, zeros) in
                [(0, 0), (1, 0), (0, 70_000), (5000, 5000), (LZ4_BLOCK + 1, 0), (10, 2 * LZ4_BLOCK)]
            {
                let data = bytes(noise, zeros);
                let mut frame = vec![0; compressor.bound(data.len())];
                let len = compressor.compress(&data, &mut frame).unwrap();
                let mut out = vec![1; data.len()];
                decompressor.decompress(&frame[..len], &mut out).unwrap();
                assert!(out == data, "{compression:?} {noise} {zeros}");
                // Too long, too short, and followed by something.
                for wrong in [data.len() + 1, data.len().wrapping_sub(1)] {
                    if wrong != usize::MAX {
                        let mut out = vec![0; wrong];
                        assert!(decompressor.decompress(&frame[..len], &mut out).is_err());
                    }
                }
                frame.truncate(len);
                frame.push(0);
                assert!(decompressor.decompress(&frame, &mut out).is_err());
            }
        }
    }

    #[test]
    fn a_frame_needs_room() {
        for compression in [Compression::Lz4, Compression::Zstd] {
            let (mut compressor, _) = pair(compression);
            let data = bytes(10_000, 0);
            let mut out = vec![0; compressor.bound(data.len())];
            let len = compressor.compress(&data, &mut out).unwrap();
            assert!(len > data.len());
            assert!(compressor.compress(&data, &mut out[..data.len()]).is_err());
            assert!(compressor.compress(&data, &mut []).is_err());
        }
    }

    #[test]
    fn what_fits_is_known() {
        for compression in [Compression::Lz4, Compression::Zstd] {
            let (compressor, _) = pair(compression);
            for room in (0..200).chain([4096, 100_000, LZ4_BLOCK, 3 * LZ4_BLOCK]) {
                let len = compressor.fitting(room);
                assert!(len == 0 || compressor.bound(len) <= room, "{compression:?} {room} {len}");
                // A few bytes may be left.
                assert!(
                    compressor.bound(len + 5 + room / 10_000) > room,
                    "{compression:?} {room} {len}"
                );
            }
        }
    }

    #[test]
    fn gzip_is_refused() {
        assert!(FrameCompressor::new(CompressionOptions::fastest(Compression::Gzip)).is_err());
        assert!(FrameDecompressor::new(Compression::Gzip).is_err());
    }

    proptest! {
        #[test]
        fn damage_does_no_harm(noise in 0_usize..3000, zeros in 0_usize..3000, at: usize, bit in 0_u8..8) {
            for compression in [Compression::Lz4, Compression::Zstd] {
                let (mut compressor, mut decompressor) = pair(compression);
                let data = bytes(noise, zeros);
                let mut frame = vec![0; compressor.bound(data.len())];
                let len = compressor.compress(&data, &mut frame).unwrap();
                let mut out = vec![0; data.len()];
                prop_assert!(decompressor.decompress(&frame[..at % len], &mut out).is_err());
                frame[at % len] ^= 1 << bit;
                let _ = decompressor.decompress(&frame[..len], &mut out);
            }
        }
    }
}
