//! A frame being segmented: the position, and the common part of all segments' headers.
//!
//! All segments except the last have the same length. So the headers are parsed once, and their
//! sums are kept as a template. For each segment, only the different fields are written and added:
//! sequence number, flags, identification, lengths and the sum of the payload (RFC 1071 section 2,
//! RFC 1624).

use std::ops::Range;

use wirelane_wire::checksum::Sum;

use super::layout::Layout;
use super::parameters::Parameters;
use super::stats::{Refusal, SegmentClass};
use super::template::{self, HeaderTemplate};
use crate::checksum;
use crate::frame::Offload;

pub(crate) mod slices;

/// A frame being segmented, resumable at any segment. It has no reference to the frame, so both can
/// wait in a queue; every call must get the same bytes.
#[derive(Clone, Debug)]
pub struct Cursor {
    template: HeaderTemplate,
    class: Option<SegmentClass>,
    /// Bytes of the whole frame.
    frame_len: usize,
    /// Offset of the payload.
    begin: usize,
    /// The first payload byte that is not sent yet.
    position: usize,
    /// Payload bytes per output frame.
    unit: usize,
    /// Payload bytes per segment: less than `unit` if the sink segments output frames again.
    mss: usize,
    /// Number of output frames so far.
    emitted: u32,
    done: bool,
}

/// One output frame: a header block and a part of the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Bytes of the header block.
    pub header_len: usize,
    /// The range of the payload in the input frame.
    pub payload: Range<usize>,
    /// Offloads that the sink must complete.
    pub offload: Offload,
}

impl Segment {
    /// Bytes of the frame.
    pub fn len(&self) -> usize {
        self.header_len + self.payload.len()
    }

    /// Always false: frames are not empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why a cursor returned no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All segments were returned.
    Done,
    /// The buffer is shorter than the next frame, which has this number of bytes. The cursor is
    /// unchanged.
    NoRoom(usize),
}

impl Cursor {
    /// For a frame that is not parsed yet.
    #[inline]
    pub(super) fn blank() -> Self {
        Self {
            template: HeaderTemplate::blank(),
            class: None,
            frame_len: 0,
            begin: 0,
            position: 0,
            unit: 0,
            mss: 0,
            emitted: 0,
            done: false,
        }
    }

    /// Plans to send the frame with these parameters. In place, like [`HeaderTemplate::take`].
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        frame: &[u8],
        layout: &Layout,
        offload: &Offload,
        parameters: Parameters,
    ) -> Result<(), Refusal> {
        self.template.take(frame, layout, offload, &parameters)?;
        (self.begin, self.position) = (self.template.payload, self.template.payload);
        self.class = Some(layout.class);
        self.frame_len = frame.len();
        (self.unit, self.mss) = (parameters.unit, parameters.mss);
        Ok(())
    }

    /// Plans to send the whole frame with its checksum completed.
    pub(super) fn whole(frame: &[u8], offload: &Offload) -> Result<Self, Refusal> {
        let place = offload.checksum.ok_or(Refusal::ChecksumPlace)?;
        let template = HeaderTemplate::whole(frame, place)?;
        Ok(Self {
            begin: template.payload,
            position: template.payload,
            unit: frame.len() - template.payload,
            mss: frame.len() - template.payload,
            template,
            frame_len: frame.len(),
            ..Self::blank()
        })
    }

    /// The class of the output frames; `None` for a frame that is not segmented.
    pub fn class(&self) -> Option<SegmentClass> {
        self.class
    }

    /// Whether all segments were returned.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Number of frames returned so far.
    pub fn emitted(&self) -> u32 {
        self.emitted
    }

    /// Number of frames still to return.
    pub fn remaining(&self) -> usize {
        if self.done {
            return 0;
        }
        (self.frame_len - self.position).div_ceil(self.unit.max(1)).max(1)
    }

    /// Payload bytes per segment.
    pub fn mss(&self) -> usize {
        self.mss
    }

    /// Bytes of the longest output frame, and of the last one.
    pub fn frame_lengths(&self) -> (usize, usize) {
        let payload = self.frame_len - self.begin;
        let last = match payload % self.unit.max(1) {
            0 => payload.min(self.unit),
            odd => odd,
        };
        let header = self.template.header_len(false);
        (header + payload.min(self.unit), header + last)
    }

    /// Bytes of the next frame; 0 if there is none.
    pub fn next_len(&self) -> usize {
        if self.done { 0 } else { self.header_len() + self.next_payload().len() }
    }

    /// Copies the next frame to the front of `out`, and sums its payload at the same time.
    ///
    /// # Errors
    /// [`Stop`], without moving the cursor.
    #[inline]
    pub fn copy(&mut self, frame: &[u8], out: &mut [u8]) -> Result<Segment, Stop> {
        let payload = self.next_payload();
        let header_len = self.header_len();
        let len = header_len + payload.len();
        if self.done {
            return Err(Stop::Done);
        }
        // A frame other than the one this was made for has no segments.
        let source = frame.get(payload.clone()).ok_or(Stop::Done)?;
        let out = out.get_mut(..len).ok_or(Stop::NoRoom(len))?;
        self.template.copy_headers(frame, out);
        let (header, target) = out.split_at_mut_checked(header_len).ok_or(Stop::NoRoom(len))?;
        let sum = if self.template.sums_payload {
            checksum::copy(target, source).map_err(|_| Stop::NoRoom(len))?
        } else {
            target.copy_from_slice(source);
            Sum::ZERO
        };
        Ok(self.advance(frame, header, payload, sum))
    }

    /// Writes the header block of the next frame to the front of `out`, and may overwrite bytes
    /// after it. The payload is not copied, for sinks that accept vectors.
    ///
    /// # Errors
    /// [`Stop`], without moving the cursor. No block is longer than
    /// [`MAX_HEADER`](super::parameters::MAX_HEADER).
    #[inline]
    pub fn slice(&mut self, frame: &[u8], out: &mut [u8]) -> Result<Segment, Stop> {
        let payload = self.next_payload();
        let header_len = self.header_len();
        if self.done {
            return Err(Stop::Done);
        }
        let source = frame.get(payload.clone()).ok_or(Stop::Done)?;
        if out.len() < header_len {
            return Err(Stop::NoRoom(header_len));
        }
        self.template.copy_headers(frame, out);
        let header = out.get_mut(..header_len).ok_or(Stop::NoRoom(header_len))?;
        let sum = if self.template.sums_payload { checksum::sum(source) } else { Sum::ZERO };
        Ok(self.advance(frame, header, payload, sum))
    }

    #[inline]
    fn header_len(&self) -> usize {
        self.template.header_len(self.position == self.begin)
    }

    /// In the first fragment, the header block includes the first payload bytes.
    #[inline]
    fn next_payload(&self) -> Range<usize> {
        let end = self.frame_len.min(self.position + self.unit);
        let skip = if self.position == self.begin { self.template.prefix } else { 0 };
        self.position + skip..end
    }

    #[inline(always)]
    fn advance(
        &mut self,
        frame: &[u8],
        header: &mut [u8],
        payload: Range<usize>,
        sum: Sum,
    ) -> Segment {
        let last = payload.end == self.frame_len;
        let piece = template::Piece {
            offset: self.position - self.begin,
            len: payload.end - self.position,
            index: self.emitted,
            last,
            sum,
        };
        self.template.write(frame, header, &piece);
        self.position = payload.end;
        self.emitted += 1;
        self.done = last;
        let offload = self.template.left_to_sink(piece.len, self.mss, piece.offset == 0);
        Segment { header_len: header.len(), payload, offload }
    }
}
