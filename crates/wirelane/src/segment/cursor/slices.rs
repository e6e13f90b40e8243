//! Header blocks for a sink that takes vectors, many at a time.
//!
//! The pieces between the first and the last one are alike and lie one behind the other. So what they need
//! is checked once for all of them, and per piece its payload is summed and its header written.

use wirelane_wire::checksum::Sum;

use super::{Cursor, Segment, Stop};
use crate::checksum;
use crate::segment::template::Piece;

/// So many payloads are summed before their headers are written.
const SUMS: usize = 64;

/// Bytes of a header block that is copied as a whole: Ethernet, tags, IPv6 and TCP with all its options fit.
const BLOCK: usize = 128;
/// As far as a short header block goes, without tags and options.
const HALF: usize = 64;

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
        while let Some(buffer) = buffers.get_mut(taken.segments) {
            match self.slice(frame, buffer.as_mut()) {
                Ok(segment) => {
                    taken.segments += 1;
                    taken.bytes += segment.len();
                    each(buffer, segment);
                }
                Err(stop) if taken.segments == 0 => return Err(stop),
                Err(_) => break,
            }
            let rest = buffers.get_mut(taken.segments..).unwrap_or_default();
            let count = self.slice_middle(frame, rest, &mut each);
            taken.segments += count;
            taken.bytes += count * (self.template.header_len(false) + self.unit);
        }
        Ok(taken)
    }

    /// The pieces up to the last one, as far as there are buffers: how many.
    #[inline]
    fn slice_middle<B: AsMut<[u8]>>(
        &mut self,
        frame: &[u8],
        buffers: &mut [B],
        mut each: impl FnMut(&mut B, Segment),
    ) -> usize {
        let header_len = self.template.header_len(false);
        let Some(middle) = self.template.middle.filter(|_| header_len <= BLOCK) else { return 0 };
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

        let (mut begin, mut index) = (self.position, self.emitted);
        let piece = |begin, index, sum| {
            let offset = begin - self.begin;
            Piece { offset, len: unit, index, last: false, sum }
        };
        let mut block = [0; BLOCK];
        self.template.copy_headers(frame, &mut block);
        self.template.write(frame, &mut block, &piece(begin, index, Sum::ZERO));
        let offload = self.template.left_to_sink(unit, self.mss, false);
        for (buffer, &mut sum) in buffers.iter_mut().zip(sums) {
            let Some(header) = buffer.as_mut().first_chunk_mut::<BLOCK>() else { break };
            if header_len > HALF {
                *header = block;
            } else if let (Some(to), Some(from)) = (header.first_chunk_mut(), block.first_chunk()) {
                let (to, from): (&mut [u8; HALF], &[u8; HALF]) = (to, from);
                *to = *from;
            }
            middle.write_next(header, &piece(begin, index, sum));
            each(buffer, Segment { header_len, payload: begin..begin + unit, offload });
            begin += unit;
            index += 1;
        }
        let count = index - self.emitted;
        (self.position, self.emitted) = (begin, index);
        count as usize
    }
}
