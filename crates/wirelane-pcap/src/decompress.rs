//! Reads compressed files: any sequence of gzip members, lz4 frames or zstd frames.
//!
//! The source may be a pipe that is empty for now ([`io::ErrorKind::WouldBlock`]). The reader then
//! returns all data that has arrived, and later continues where it stopped.

use std::io::{self, BufRead, BufReader, Read};

use flate2::{Decompress, FlushDecompress, Status};
use lz4_flex::frame::FrameDecoder;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use crate::compress::zstd_error;
use crate::compression::Compression;

/// Bytes requested from a compressed file at once.
const CHUNK: usize = 128 * 1024;
/// Largest zstd window that is accepted, as a power of 2: 128 MiB, as the zstd program accepts
/// without `--long`. It limits the memory that a frame header can request.
const MAX_ZSTD_WINDOW: u32 = 27;
/// The window of every gzip file, as a power of 2 (RFC 1951).
const GZIP_WINDOW: u8 = 15;

/// A stream of the decompressed content of `source`. If `source` ends inside a frame, the stream
/// ends with [`io::ErrorKind::UnexpectedEof`], after all bytes that could be decompressed.
///
/// # Errors
/// Not enough memory.
pub(crate) fn decompress<R: Read + Send + 'static>(
    compression: Compression,
    source: R,
) -> io::Result<Box<dyn Read + Send>> {
    Ok(match compression {
        Compression::Gzip => Box::new(FrameSequence::new(source, GzipDecoder::new())),
        Compression::Lz4 => Box::new(Lz4Frames::new(source)),
        Compression::Zstd => Box::new(FrameSequence::new(source, ZstdDecoder::new()?)),
    })
}

/// Decodes bytes as they arrive.
trait Decode {
    /// Zero bytes may follow a frame.
    const HAS_PADDING: bool;

    /// Decodes as much of `input` into `output` as possible. Both may have bytes left.
    fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Decoded;
}

/// The result of [`Decode::decode`].
struct Decoded {
    /// Consumed bytes of the input.
    taken: usize,
    /// Bytes written to the output, also before an error.
    given: usize,
    /// Whether a frame ended here, with all of its content written.
    ends: io::Result<bool>,
}

/// Decodes a sequence of frames.
struct FrameSequence<R, D> {
    source: BufReader<R>,
    decoder: D,
    in_frame: bool,
    /// The decoder may have more output without more input.
    is_full: bool,
    /// The error after the bytes that were already decoded.
    failure: Option<io::Error>,
}

impl<R: Read, D: Decode> FrameSequence<R, D> {
    fn new(source: R, decoder: D) -> Self {
        let source = BufReader::with_capacity(CHUNK, source);
        Self { source, decoder, in_frame: false, is_full: false, failure: None }
    }
}

impl<R: Read, D: Decode> Read for FrameSequence<R, D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        loop {
            // More input may take long to arrive.
            let bytes = if self.is_full { &[] } else { self.source.fill_buf()? };
            let is_end = bytes.is_empty() && !self.is_full;
            if D::HAS_PADDING && !self.in_frame && bytes.first() == Some(&0) {
                let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                self.source.consume(zeros);
                continue;
            }
            if is_end && !self.in_frame {
                return Ok(0);
            }
            let Decoded { taken, given, ends } = self.decoder.decode(bytes, buffer);
            self.source.consume(taken);
            match ends {
                Ok(ends) => self.in_frame = !ends,
                Err(failure) if given == 0 => return Err(failure),
                Err(failure) => self.failure = Some(failure),
            }
            self.is_full = given == buffer.len() && self.in_frame;
            if given > 0 {
                return Ok(given);
            }
            if is_end && self.in_frame {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Members of gzip (RFC 1952).
struct GzipDecoder(Decompress);

impl GzipDecoder {
    fn new() -> Self {
        Self(Decompress::new_gzip(GZIP_WINDOW))
    }
}

impl Decode for GzipDecoder {
    /// Tapes and devices pad their last block with zeros, and gzip(1) ignores them.
    const HAS_PADDING: bool = true;

    fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Decoded {
        let before = (self.0.total_in(), self.0.total_out());
        let status = self.0.decompress(input, output, FlushDecompress::None);
        let taken = (self.0.total_in() - before.0) as usize;
        let given = (self.0.total_out() - before.1) as usize;
        let ends = status.map(|status| status == Status::StreamEnd).map_err(io::Error::from);
        if let Ok(true) = ends {
            *self = Self::new();
        }
        Decoded { taken, given, ends }
    }
}

/// Zstd frames (RFC 8878) and skippable frames.
struct ZstdDecoder(DCtx<'static>);

impl ZstdDecoder {
    fn new() -> io::Result<Self> {
        let mut context = DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        context.set_parameter(DParameter::WindowLogMax(MAX_ZSTD_WINDOW)).map_err(zstd_error)?;
        Ok(Self(context))
    }
}

impl Decode for ZstdDecoder {
    const HAS_PADDING: bool = false;

    fn decode(&mut self, input: &[u8], output: &mut [u8]) -> Decoded {
        let (mut input, mut output) = (InBuffer::around(input), OutBuffer::around(output));
        let left = self.0.decompress_stream(&mut output, &mut input);
        let ends = left.map(|left| left == 0).map_err(zstd_error);
        Decoded { taken: input.pos(), given: output.pos(), ends }
    }
}

/// Decodes a sequence of lz4 frames and skippable frames. The decoder of `lz4_flex` ends after each
/// frame, and ends in the same way at the end of the source, wherever that is. When the source had
/// only a part of a frame header or of a block, the decoder reads it again from the start.
struct Lz4Frames<R: Read> {
    decoder: FrameDecoder<Replayed<R>>,
    in_frame: bool,
    /// Bytes left of a skippable frame.
    to_skip: usize,
}

impl<R: Read> Lz4Frames<R> {
    fn new(source: R) -> Self {
        Self { decoder: FrameDecoder::new(Replayed::new(source)), in_frame: false, to_skip: 0 }
    }

    /// Skips skippable frames and starts the next frame; false at the end of the source.
    fn next_frame(&mut self) -> io::Result<bool> {
        let source = self.decoder.get_mut();
        loop {
            while self.to_skip > 0 {
                let skipped = source.have(1)?.len().min(self.to_skip);
                if skipped == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                source.keep_from(skipped);
                source.rewind();
                self.to_skip -= skipped;
            }
            match source.have(1)? {
                [] => return Ok(false),
                [0x50..=0x5f, ..] => {}
                // Not the first byte of a skippable frame; its other bytes may still be in a pipe.
                _ => {
                    // The decoder continues from the header to the first block, and never reads the
                    // header again.
                    let head = head_of_frame(source.have(5)?);
                    source.have(head)?;
                    source.keep_from(head);
                    self.in_frame = true;
                    return Ok(true);
                }
            }
            let Some(head) = source.have(8)?.first_chunk() else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let [_, 0x2a, 0x4d, 0x18, a, b, c, d] = *head else {
                let text = "lz4: what follows a frame is none";
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            };
            self.to_skip = u32::from_le_bytes([a, b, c, d]) as usize;
            source.keep_from(8);
            source.rewind();
        }
    }

    fn decode(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.in_frame && !self.next_frame()? {
                return Ok(0);
            }
            let given = self.decoder.read(buffer)?;
            self.decoder.get_mut().keep_from(0);
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

impl<R: Read> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let given = self.decode(buffer);
        if given.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            self.decoder.get_mut().rewind();
        }
        given
    }
}

/// Bytes of the header of an lz4 frame, by its first five bytes (lz4_Frame_format.md); a legacy
/// frame has only a magic number.
fn head_of_frame(start: &[u8]) -> usize {
    const LEGACY: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];
    const HAS_SIZE: u8 = 1 << 3;
    const HAS_DICTIONARY: u8 = 1;
    match *start {
        [a, b, c, d, flags, ..] if [a, b, c, d] != LEGACY => {
            let size = if flags & HAS_SIZE == 0 { 0 } else { 8 };
            7 + size + if flags & HAS_DICTIONARY == 0 { 0 } else { 4 }
        }
        _ => LEGACY.len(),
    }
}

/// A source that keeps its bytes from one position on, and can rewind to it.
struct Replayed<R> {
    source: R,
    buffer: Vec<u8>,
    /// Positions in the buffer: the first kept byte, the next byte to read, and the end of the
    /// received bytes.
    kept: usize,
    next: usize,
    end: usize,
    /// The caller needed more bytes than the source has.
    has_ended: bool,
}

impl<R: Read> Replayed<R> {
    fn new(source: R) -> Self {
        Self { source, buffer: vec![0; CHUNK], kept: 0, next: 0, end: 0, has_ended: false }
    }

    /// Keeps the bytes after the next `count`, which are in the buffer, and releases the earlier
    /// ones.
    fn keep_from(&mut self, count: usize) {
        self.kept = (self.next + count).min(self.end);
    }

    /// Continues reading at the first kept byte.
    fn rewind(&mut self) {
        self.next = self.kept;
    }

    /// The next `count` bytes or more; fewer at the end of the source.
    fn have(&mut self, count: usize) -> io::Result<&[u8]> {
        while self.end - self.next < count {
            let first = self.kept.min(self.next);
            self.buffer.copy_within(first..self.end, 0);
            self.kept -= first;
            self.next -= first;
            self.end -= first;
            if self.end == self.buffer.len() {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
            match self.source.read(self.buffer.get_mut(self.end..).unwrap_or_default())? {
                0 => {
                    self.has_ended = true;
                    break;
                }
                more => self.end += more,
            }
        }
        Ok(self.buffer.get(self.next..self.end).unwrap_or_default())
    }
}

impl<R: Read> Read for Replayed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let count = self.have(1)?.read(out)?;
        self.next += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Compressor;
    use crate::compression::CompressionOptions;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// A pipe that delivers these pieces one by one, and would block after each of them.
    struct Pieces(VecDeque<Vec<u8>>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(piece) = self.0.front_mut() else { return Ok(0) };
            if piece.is_empty() {
                self.0.pop_front();
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let count = piece.len().min(buffer.len());
            buffer[..count].copy_from_slice(&piece[..count]);
            piece.drain(..count);
            Ok(count)
        }
    }

    /// A skippable frame, for formats that have them.
    fn skipped(compression: Compression) -> &'static [u8] {
        match compression {
            Compression::Gzip => &[],
            _ => &[0x5a, 0x2a, 0x4d, 0x18, 5, 0, 0, 0, 1, 2, 3, 4, 5],
        }
    }

    /// Puts each chunk into a separate frame, after a skippable frame.
    fn compressed(compression: Compression, chunks: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut compressor = Compressor::new(CompressionOptions::fastest(compression)).unwrap();
        let frame = |chunk: &Vec<u8>| {
            let mut frame = Vec::new();
            compressor.compress(chunk, &mut frame).unwrap();
            [skipped(compression), &frame].concat()
        };
        chunks.iter().map(frame).collect()
    }

    /// As the lz4 program writes it: blocks that depend on earlier blocks, with all checksums.
    fn linked(content: &[u8]) -> Vec<u8> {
        use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
        let info = FrameInfo::new()
            .block_mode(BlockMode::Linked)
            .block_size(BlockSize::Max64KB)
            .block_checksums(true)
            .content_checksum(true);
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        io::Write::write_all(&mut encoder, content).unwrap();
        encoder.finish().unwrap()
    }

    /// Cuts bytes at these positions.
    fn pieces(bytes: &[u8], cuts: &[usize]) -> Pieces {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort();
        Pieces(cuts.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect())
    }

    /// Reads everything, `at_once` bytes per read. Calls `pause` with the number of bytes so far
    /// each time that the source would block.
    fn read(
        compression: Compression,
        source: Pieces,
        at_once: usize,
        mut pause: impl FnMut(usize),
    ) -> (Vec<u8>, io::Result<()>) {
        let mut reader = decompress(compression, source).unwrap();
        let (mut all, mut buffer) = (Vec::new(), vec![0; at_once]);
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return (all, Ok(())),
                Ok(count) => all.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => pause(all.len()),
                Err(error) => return (all, Err(error)),
            }
        }
    }

    /// Chunks that hardly compress, and chunks that shrink to a few bytes.
    fn chunks() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let random = proptest::collection::vec(any::<u8>(), 0..3000);
        let long = (any::<u8>(), 0..150_000_usize).prop_map(|(byte, count)| vec![byte; count]);
        proptest::collection::vec(prop_oneof![random, long], 1..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn pauses_of_the_source_lose_and_repeat_nothing(
            chunks in chunks(),
            cuts in proptest::collection::vec(any::<usize>(), 0..12),
            at_once in prop_oneof![1..4_usize, 1000..300_000_usize],
        ) {
            let content = chunks.concat();
            for compression in Compression::ALL {
                let bytes = compressed(compression, &chunks).concat();
                let (all, end) = read(compression, pieces(&bytes, &cuts), at_once, |_| {});
                prop_assert!(all == content && end.is_ok(), "{compression:?}: {end:?}");
            }
            let (all, end) =
                read(Compression::Lz4, pieces(&linked(&content), &cuts), at_once, |_| {});
            prop_assert!(all == content && end.is_ok(), "{end:?}");
        }

        /// As gzip(1) does; in the other formats, trailing zeros are damage.
        #[test]
        fn gzip_may_end_with_zeros(
            chunks in chunks(),
            cuts in proptest::collection::vec(any::<usize>(), 0..12),
            zeros in 1..300_000_usize,
        ) {
            for compression in Compression::ALL {
                let bytes = [compressed(compression, &chunks).concat(), vec![0; zeros]].concat();
                let (all, end) = read(compression, pieces(&bytes, &cuts), 10_000, |_| {});
                prop_assert!(all == chunks.concat(), "{compression:?}");
                prop_assert_eq!(end.is_ok(), compression == Compression::Gzip);
                let garbage = [bytes, b"x".to_vec()].concat();
                let (all, end) = read(compression, pieces(&garbage, &cuts), 10_000, |_| {});
                prop_assert!(all == chunks.concat() && end.is_err(), "{compression:?}");
            }
        }

        #[test]
        fn what_has_come_whole_is_there(chunks in chunks(), at_once in 1..300_000_usize) {
            for compression in Compression::ALL {
                let source = Pieces(compressed(compression, &chunks).into());
                let mut expected = Vec::new();
                for chunk in &chunks {
                    expected.push(expected.last().unwrap_or(&0) + chunk.len());
                }
                let mut found = Vec::new();
                let (all, end) = read(compression, source, at_once, |count| found.push(count));
                prop_assert_eq!(found, expected, "{:?}", compression);
                prop_assert!(all == chunks.concat() && end.is_ok());
            }
        }

        #[test]
        fn what_is_cut_says_so(chunks in chunks(), cut in any::<usize>()) {
            for compression in Compression::ALL {
                let frames = compressed(compression, &chunks);
                let bytes = frames.concat();
                let cut = cut % bytes.len();
                // Starts of frames, including their skippable frames.
                let mut begins = vec![0];
                for frame in &frames {
                    let begin = begins.last().unwrap_or(&0) + skipped(compression).len();
                    begins.extend([begin, begin - skipped(compression).len() + frame.len()]);
                }
                let is_between = begins.contains(&cut);
                let source = Pieces(VecDeque::from([bytes[..cut].to_vec()]));
                let (all, end) = read(compression, source, 1000, |_| {});
                prop_assert!(chunks.concat().starts_with(&all));
                match end {
                    Ok(()) => prop_assert!(is_between, "{compression:?}"),
                    Err(error) => {
                        prop_assert!(!is_between, "{compression:?}: {error}");
                        prop_assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
                    }
                }
            }
        }
    }
}
