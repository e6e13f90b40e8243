//! Many segments at once: copied, or as header blocks for sinks that accept vectors.
//!
//! The pieces except the last have similar headers, often also the first, and their payloads are
//! contiguous. So their ranges are checked once for all of them, and their common header fields are
//! written once.
//!
//! Without copies, summing the payloads is bound by the cache, and writing the headers by the
//! number of instructions. Alternating them slowed both down, so the payloads are summed first.

use wirelane_wire::checksum::Sum;

use super::{Cursor, Segment, Stop};
use crate::checksum;
use crate::frame::Offload;
use crate::segment::template::{Header, Piece, Visitor};

/// The number of payloads that are summed before their headers are written.
const SUMS: usize = 64;

/// Bytes of a header block that is copied as a whole: enough for Ethernet, tags, IPv6 and TCP with
/// all options.
const BLOCK: usize = 128;
/// Enough for IPv6, or the usual options.
const MEDIUM: usize = 96;
/// Enough without tags and options.
const SHORT: usize = 64;

/// The result of [`Cursor::slices`] or [`Cursor::copies`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Number of segments, and of filled buffers.
    pub segments: usize,
    /// Bytes of the segments, with their headers.
    pub bytes: usize,
}

impl Cursor {
    /// Like [`slice`](Self::slice), for as many segments as there are buffers. Each header block is
    /// written to the front of a buffer, and bytes after it may be overwritten; then `each` gets
    /// the buffer and the segment. Much faster than single calls if buffers have at least 128
    /// bytes.
    ///
    /// # Errors
    /// [`Stop`] if there is not even one segment.
    #[inline]
    pub fn slices<B: AsMut<[u8]>>(
        &mut self,
        frame: &[u8],
        buffers: &mut [B],
        each: impl FnMut(&mut B, Segment),
    ) -> Result<Taken, Stop> {
        self.many::<false, B>(frame, buffers, each)
    }

    /// Like [`copy`](Self::copy), for as many segments as there are buffers. Each is written to the
    /// front of a buffer; then `each` gets the buffer and the segment. Faster than single calls.
    ///
    /// # Errors
    /// [`Stop`] if there is not even one segment.
    #[inline]
    pub fn copies<B: AsMut<[u8]>>(
        &mut self,
        frame: &[u8],
        buffers: &mut [B],
        each: impl FnMut(&mut B, Segment),
    ) -> Result<Taken, Stop> {
        self.many::<true, B>(frame, buffers, each)
    }

    #[inline(always)]
    fn many<const COPY: bool, B: AsMut<[u8]>>(
        &mut self,
        frame: &[u8],
        buffers: &mut [B],
        mut each: impl FnMut(&mut B, Segment),
    ) -> Result<Taken, Stop> {
        let mut taken = Taken::default();
        loop {
            let rest = buffers.get_mut(taken.segments..).unwrap_or_default();
            let count = self.middles::<COPY, B>(frame, rest, &mut each);
            taken.segments += count;
            taken.bytes += count * (self.template.header_len(false) + self.unit);

            let Some(buffer) = buffers.get_mut(taken.segments) else { return Ok(taken) };
            let next = match COPY {
                true => self.copy(frame, buffer.as_mut()),
                false => self.slice(frame, buffer.as_mut()),
            };
            match next {
                Ok(segment) => {
                    taken.segments += 1;
                    taken.bytes += segment.len();
                    each(buffer, segment);
                }
                Err(stop) if taken.segments == 0 => return Err(stop),
                Err(_) => return Ok(taken),
            }
        }
    }

    /// Writes the similar pieces before the last one, as far as there are buffers. Returns their
    /// number.
    #[inline(always)]
    fn middles<const COPY: bool, B: AsMut<[u8]>>(
        &mut self,
        frame: &[u8],
        buffers: &mut [B],
        each: impl FnMut(&mut B, Segment),
    ) -> usize {
        let header_len = self.template.header_len(false);
        let first = self.position == self.begin;
        let middle = self.template.middle(first).filter(|_| header_len <= BLOCK);
        let Some(middle) = middle else { return 0 };
        let unit = self.unit.max(1);
        let left = self.frame_len.saturating_sub(self.position + 1) / unit;
        let mut sums = [Sum::ZERO; SUMS];
        let Some(sums) = sums.get_mut(..left.min(buffers.len()).min(SUMS)) else { return 0 };
        let end = self.position + sums.len() * unit;
        let Some(payload) = frame.get(self.position..end) else { return 0 };
        if sums.is_empty() {
            return 0;
        }
        if self.template.sums_payload && !COPY {
            checksum::sums(payload, unit, sums);
        }

        let run = SegmentRun::<COPY, B, _> {
            cursor: self,
            frame,
            payload,
            sums,
            buffers,
            offload: self.template.left_to_sink(unit, self.mss, false),
            each,
        };
        let count = match header_len {
            _ if header_len <= SHORT => middle.visit(run.blocks_of::<SHORT>()),
            _ if header_len <= MEDIUM => middle.visit(run.blocks_of::<MEDIUM>()),
            _ => middle.visit(run.blocks_of::<BLOCK>()),
        };
        self.position += count * unit;
        self.emitted += count as u32;
        count
    }
}

/// Contiguous pieces of the cursor's length, whose headers are written. With `COPY`, their payloads
/// are copied after the headers, and summed at the same time.
struct SegmentRun<'a, const COPY: bool, B, E> {
    cursor: &'a Cursor,
    frame: &'a [u8],
    payload: &'a [u8],
    /// The sums of the payloads if they are not copied, one per piece.
    sums: &'a [Sum],
    buffers: &'a mut [B],
    offload: Offload,
    each: E,
}

/// A run of header blocks that are copied as `N` bytes.
struct HeaderBlocks<'a, const COPY: bool, B, E, const N: usize>(SegmentRun<'a, COPY, B, E>);

impl<'a, const COPY: bool, B, E> SegmentRun<'a, COPY, B, E> {
    fn blocks_of<const N: usize>(self) -> HeaderBlocks<'a, COPY, B, E, N> {
        HeaderBlocks(self)
    }
}

impl<const COPY: bool, B: AsMut<[u8]>, E: FnMut(&mut B, Segment), const N: usize> Visitor
    for HeaderBlocks<'_, COPY, B, E, N>
{
    /// The number of blocks written.
    type Output = usize;

    #[inline(always)]
    fn visit(self, headers: impl Header) -> usize {
        let SegmentRun { cursor, frame, payload, sums, buffers, offload, mut each } = self.0;
        let (header_len, unit) = (cursor.template.header_len(false), cursor.unit);
        let mut block = [0; N];
        cursor.template.copy_headers(frame, &mut block);
        headers.write_common(&mut block);

        let (mut begin, mut index) = (cursor.position, cursor.emitted);
        let pieces = payload.chunks_exact(unit.max(1));
        for ((buffer, &sum), source) in buffers.iter_mut().zip(sums).zip(pieces) {
            let out = buffer.as_mut();
            // Shorter segments than a block are written one by one.
            let out = if COPY { out.get_mut(..header_len + unit).unwrap_or_default() } else { out };
            let Some(header) = out.first_chunk_mut::<N>() else { break };
            *header = block;
            // The payload overwrites the part of the block after the headers.
            let sum = match out.get_mut(header_len..).filter(|_| COPY) {
                Some(target) if cursor.template.sums_payload => {
                    checksum::copy(target, source).unwrap_or_default()
                }
                Some(target) => {
                    target.copy_from_slice(source);
                    Sum::ZERO
                }
                None => sum,
            };
            let Some(header) = out.first_chunk_mut::<N>() else { break };
            let offset = begin - cursor.begin;
            headers.write_next(header, &Piece { offset, len: unit, index, last: false, sum });
            each(buffer, Segment { header_len, payload: begin..begin + unit, offload });
            begin += unit;
            index += 1;
        }
        (index - cursor.emitted) as usize
    }
}
