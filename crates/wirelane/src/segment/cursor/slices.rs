//! Header blocks for a sink that takes vectors, many at a time.
//!
//! The pieces up to the last one are alike, often with the first one, and lie one behind the other. So what they
//! need is checked once for all of them. Then their payloads are summed, which is bound by the cache that they come
//! from, and after that the headers are written, which is bound by the number of instructions: done in turns, each
//! was seen to slow the other down.

use wirelane_wire::checksum::Sum;

use super::{Cursor, Segment, Stop};
use crate::checksum;
use crate::frame::Offload;
use crate::segment::template::{Header, Piece, Visitor};

/// So many payloads are summed before their headers are written.
const SUMS: usize = 64;

/// Bytes of a header block that is copied as a whole: Ethernet, tags, IPv6 and TCP with all its options fit.
const BLOCK: usize = 128;
/// With IPv6, or options as usual.
const MEDIUM: usize = 96;
/// Without tags and options.
const SHORT: usize = 64;

/// What a call of [`Cursor::slices`] gave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Segments: as many buffers were filled.
    pub segments: usize,
    /// Bytes of the segments, with their headers.
    pub bytes: usize,
}

impl Cursor {
    /// As [`slice`](Self::slice), for as many segments as there are buffers: each header block goes to the
    /// front of a buffer, which `each` is then given with the segment. What is behind it in the buffer may be
    /// overwritten. Much faster than one by one if buffers have at least 128 bytes.
    ///
    /// # Errors
    /// [`Stop`] if not even one came out.
    #[inline]
    pub fn slices<B: AsMut<[u8]>>(
        &mut self,
        frame: &[u8],
        buffers: &mut [B],
        mut each: impl FnMut(&mut B, Segment),
    ) -> Result<Taken, Stop> {
        let mut taken = Taken::default();
        loop {
            let rest = buffers.get_mut(taken.segments..).unwrap_or_default();
            let count = self.slice_middle(frame, rest, &mut each);
            taken.segments += count;
            taken.bytes += count * (self.template.header_len(false) + self.unit);

            let Some(buffer) = buffers.get_mut(taken.segments) else { return Ok(taken) };
            match self.slice(frame, buffer.as_mut()) {
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

    /// The pieces up to the last one that are alike, as far as there are buffers: how many.
    #[inline]
    fn slice_middle<B: AsMut<[u8]>>(
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
        if self.template.sums_payload {
            checksum::sums(payload, unit, sums);
        }

        let run = Run {
            cursor: self,
            frame,
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

/// Pieces behind each other, of the cursor's length, whose headers are written.
struct Run<'a, B, E> {
    cursor: &'a Cursor,
    frame: &'a [u8],
    /// Of their payloads.
    sums: &'a [Sum],
    buffers: &'a mut [B],
    offload: Offload,
    each: E,
}

/// A run of header blocks that are copied as `N` bytes.
struct Blocks<'a, B, E, const N: usize>(Run<'a, B, E>);

impl<'a, B, E> Run<'a, B, E> {
    fn blocks_of<const N: usize>(self) -> Blocks<'a, B, E, N> {
        Blocks(self)
    }
}

impl<B: AsMut<[u8]>, E: FnMut(&mut B, Segment), const N: usize> Visitor for Blocks<'_, B, E, N> {
    /// How many were written.
    type Output = usize;

    #[inline(always)]
    fn visit(self, headers: impl Header) -> usize {
        let Run { cursor, frame, sums, buffers, offload, mut each } = self.0;
        let (header_len, unit) = (cursor.template.header_len(false), cursor.unit);
        let mut block = [0; N];
        cursor.template.copy_headers(frame, &mut block);
        headers.write_common(&mut block);

        let (mut begin, mut index) = (cursor.position, cursor.emitted);
        for (buffer, &sum) in buffers.iter_mut().zip(sums) {
            let Some(header) = buffer.as_mut().first_chunk_mut::<N>() else { break };
            *header = block;
            let offset = begin - cursor.begin;
            headers.write_next(header, &Piece { offset, len: unit, index, last: false, sum });
            each(buffer, Segment { header_len, payload: begin..begin + unit, offload });
            begin += unit;
            index += 1;
        }
        (index - cursor.emitted) as usize
    }
}
