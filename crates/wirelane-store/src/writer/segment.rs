//! A segment that a lane is writing.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

use wirelane_pcap::Source;

use super::lost::{BySource, add_and_sum, add_blocks};
use super::pack::Packed;
use super::status::Counts;
use crate::disk::{Buffer, Done};
use crate::extent::{EXTENT_SIZE, ExtentHeader, padding, padding_len};
use crate::index::IndexBuilder;
use crate::names::SegmentName;

/// A segment that the retention thread prepared: its prelude is on the disk.
#[derive(Debug)]
pub(crate) struct PreparedSegment {
    pub(crate) name: SegmentName,
    /// Its random number.
    pub(crate) id: u64,
    pub(crate) file: Arc<File>,
    /// The number of sources that its prelude describes.
    pub(crate) sources: usize,
    /// Offset of the first extent.
    pub(crate) start: u64,
    /// The upper limit of the last extent's end.
    pub(crate) limit: u64,
}

/// A segment whose last extent is written.
pub(crate) struct FinishedSegment {
    /// Its current name.
    pub(crate) part: SegmentName,
    pub(crate) file: Arc<File>,
    /// Its bytes.
    pub(crate) end: u64,
    pub(crate) extents: u32,
    pub(crate) oldest: u64,
    pub(crate) newest: u64,
    /// The index of exactly these extents; `None` if it must be rebuilt.
    pub(crate) index: Option<IndexBuilder>,
}

/// A segment that is being written.
///
/// Writes end in any order, but count in the order of the file. Extents after a failed write move
/// to the next segment, and the file is truncated before the failure. So a segment has no holes.
pub(crate) struct GrowingSegment {
    ready: PreparedSegment,
    /// Offset and number of the next extent.
    at: u64,
    number: u32,
    flying: VecDeque<Flying>,
    written: FinishedSegment,
    state: SegmentState,
    since: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentState {
    Open,
    /// No extent is added any more.
    Closed,
    /// A write failed.
    Broken,
}

/// An extent that is being written.
struct Flying {
    token: u64,
    header: ExtentHeader,
    counts: Counts,
    sources: Arc<[Source]>,
    by_source: BySource,
    /// The memory and whether the write succeeded, once it has ended.
    landed: Option<(Buffer, bool)>,
}

/// The parameters of one write.
pub(crate) struct Write {
    pub(crate) file: Arc<File>,
    pub(crate) buffer: Buffer,
    pub(crate) len: usize,
    pub(crate) offset: u64,
}

impl GrowingSegment {
    pub(crate) fn new(ready: PreparedSegment) -> Self {
        let written = FinishedSegment {
            part: ready.name,
            file: Arc::clone(&ready.file),
            end: ready.start,
            extents: 0,
            oldest: u64::MAX,
            newest: 0,
            index: Some(IndexBuilder::new(ready.id)),
        };
        let (at, since) = (ready.start, Instant::now());
        let flying = VecDeque::new();
        Self { ready, at, number: 0, flying, written, state: SegmentState::Open, since }
    }

    /// Whether this extent can be added.
    pub(crate) fn has_room(&self, packed: &Packed) -> bool {
        let len = packed.header.extent_len(self.ready.name.is_compressed()) as u64;
        self.is_open() && self.describes(packed) && self.at + len <= self.ready.limit
    }

    /// Whether its prelude describes all sources of this extent.
    pub(crate) fn describes(&self, packed: &Packed) -> bool {
        packed.sources.len() <= self.ready.sources
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state == SegmentState::Open
    }

    /// Whether to request the next segment. A lane requests it after writing an eighth of the
    /// current one, because creating it may first require deleting another segment.
    pub(crate) fn needs_next(&self) -> bool {
        let left = self.ready.limit.saturating_sub(self.at);
        left < self.ready.limit / 8 * 7 || left < 2 * EXTENT_SIZE as u64
    }

    /// The time of its first extent; `None` while it is empty.
    pub(crate) fn since(&self) -> Option<Instant> {
        (self.number > 0).then_some(self.since)
    }

    /// Adds no further extents.
    pub(crate) fn close(&mut self) {
        if self.is_open() {
            self.state = SegmentState::Closed;
        }
    }

    /// Places an extent in the segment, and indexes it. `token` identifies the write.
    pub(crate) fn place(&mut self, packed: Packed, token: u64) -> Write {
        if self.number == 0 {
            self.since = Instant::now();
        }
        let compressed = self.ready.name.is_compressed();
        let Packed { mut buffer, mut header, counts, plain, sources, by_source: known } = packed;
        (header.segment, header.number) = (self.ready.id, self.number);
        let start = ExtentHeader::disk_len(compressed);
        let payload = start..start + header.payload as usize;
        let index = &mut self.written.index;
        let by_source = match (known, &plain) {
            // A previous segment counted it; its blocks may be compressed by now.
            (Some(known), _) => {
                *index = None;
                known
            }
            (None, Some(plain)) => add_blocks(plain.blocks(), &sources, index),
            (None, None) => {
                let blocks = buffer.get(payload.clone()).unwrap_or_default();
                let (by_source, sum) = add_and_sum(blocks, &sources, index);
                header.checksum = sum;
                by_source
            }
        };
        if let Some(index) = index {
            index.end_extent(self.at, &header);
        }
        let len = header.extent_len(compressed);
        put(&mut buffer, 0, &header.encode(compressed));
        put(&mut buffer, payload.end, &padding(padding_len(payload.end, compressed), compressed));
        let file = Arc::clone(&self.ready.file);
        let offset = self.at;
        let flying = Flying { token, header, counts, sources, by_source, landed: None };
        self.flying.push_back(flying);
        self.at += len as u64;
        self.number += 1;
        Write { file, buffer, len, offset }
    }

    /// Handles the end of a write; returns it if it belongs to another segment.
    pub(crate) fn land(&mut self, done: Done) -> Option<Done> {
        let Some(flying) = self.flying.iter_mut().find(|flying| flying.token == done.token) else {
            return Some(done);
        };
        if done.result.is_err() {
            self.state = SegmentState::Broken;
        }
        flying.landed = Some((done.buffer, done.result.is_ok()));
        None
    }

    /// Packets written since the last call, and bytes of the file. Frees their memory.
    pub(crate) fn retire(&mut self) -> (Counts, u64) {
        let (mut counts, begin) = (Counts::default(), self.written.end);
        let compressed = self.ready.name.is_compressed();
        while let Some(Flying { landed: Some((_, true)), .. }) = self.flying.front()
            && let Some(flying) = self.flying.pop_front()
        {
            counts.add(flying.counts);
            let written = &mut self.written;
            written.end += flying.header.extent_len(compressed) as u64;
            written.extents += 1;
            written.oldest = written.oldest.min(flying.header.oldest);
            written.newest = written.newest.max(flying.header.newest);
        }
        (counts, self.written.end - begin)
    }

    /// After a failed write, when all others have ended: the extents that are not on disk, in
    /// order.
    pub(crate) fn take_back(&mut self) -> Option<Vec<Packed>> {
        let has_ended = self.flying.iter().all(|flying| flying.landed.is_some());
        if self.state != SegmentState::Broken || self.flying.is_empty() || !has_ended {
            return None;
        }
        self.written.index = None;
        let back = self.flying.drain(..).filter_map(|flying| {
            let (buffer, _) = flying.landed?;
            let Flying { header, counts, sources, by_source, .. } = flying;
            let by_source = Some(by_source);
            Some(Packed { buffer, header, counts, plain: None, sources, by_source })
        });
        Some(back.collect())
    }

    /// Whether it is closed, and all writes have ended.
    pub(crate) fn is_finished(&self) -> bool {
        !self.is_open() && self.flying.is_empty()
    }

    /// The segment in its current state.
    pub(crate) fn finish(self) -> FinishedSegment {
        self.written
    }
}

fn put(buffer: &mut Buffer, at: usize, bytes: &[u8]) {
    if let Some(room) = buffer.get_mut(at..at + bytes.len()) {
        room.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::disk::{Buffers, DirectWriter};
    use wirelane_os::OsError;

    use super::*;
    use crate::extent::EXTENT_ALIGNMENT;

    const ALIGNMENT: u64 = EXTENT_ALIGNMENT as u64;

    fn segment() -> GrowingSegment {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let name = SegmentName { times: None, lane: 0, number: 1, compression: None };
        let (start, limit) = (ALIGNMENT, 6 * ALIGNMENT);
        GrowingSegment::new(PreparedSegment { name, id: 7, file, sources: 0, start, limit })
    }

    fn packed(buffers: &Buffers, time: u64) -> Packed {
        let header = ExtentHeader { packets: 1, oldest: time, newest: time, ..Default::default() };
        let counts = Counts { packets: 1, bytes: 60 };
        let buffer = buffers.take().unwrap();
        Packed { buffer, header, counts, plain: None, sources: Arc::default(), by_source: None }
    }

    fn done(write: Write, token: u64, is_written: bool) -> Done {
        let result = match is_written {
            true => Ok(()),
            false => Err(OsError::from_errno("write", "", 5)),
        };
        Done { token, buffer: write.buffer, result }
    }

    #[test]
    fn what_is_behind_a_failed_write_goes_elsewhere() {
        let buffers = Buffers::new(4, EXTENT_SIZE).unwrap();
        let mut segment = segment();
        let mut writes: Vec<Option<Write>> = (0..4)
            .map(|number| Some(segment.place(packed(&buffers, 10 + number), number)))
            .collect();
        let mut land = |segment: &mut GrowingSegment, number: u64, is_written| {
            let write = writes[number as usize].take().unwrap();
            assert!(segment.land(done(write, number, is_written)).is_none());
        };
        // In another order than they were begun, and the third fails.
        land(&mut segment, 3, true);
        assert_eq!(segment.retire(), (Counts::default(), 0));
        land(&mut segment, 2, false);
        assert!(!segment.is_open() && segment.take_back().is_none());
        land(&mut segment, 1, true);
        land(&mut segment, 0, true);
        assert_eq!(segment.retire(), (Counts { packets: 2, bytes: 120 }, 2 * ALIGNMENT));
        let back = segment.take_back().unwrap();
        assert_eq!(back.iter().map(|it| it.header.oldest).collect::<Vec<_>>(), [12, 13]);
        assert!(segment.is_finished());
        let finished = segment.finish();
        assert_eq!((finished.extents, finished.end), (2, 3 * ALIGNMENT));
        assert_eq!((finished.oldest, finished.newest), (10, 11));
        assert!(finished.index.is_none());

        // Extents taken back are placed again; their blocks were counted before.
        let mut next = super::tests::segment();
        for (number, packed) in (0..).zip(back) {
            let write = next.place(packed, number);
            let header = ExtentHeader::decode(&write.buffer, false).unwrap();
            assert_eq!((u64::from(header.number), header.oldest), (number, 12 + number));
            assert!(next.land(done(write, number, true)).is_none());
        }
        assert_eq!(next.retire().0.packets, 2);
    }

    #[test]
    fn a_segment_takes_what_fits() {
        let buffers = Buffers::new(6, EXTENT_SIZE).unwrap();
        let mut segment = segment();
        let mut disk = DirectWriter::new(2, &buffers);
        for number in 0..5 {
            let packed = packed(&buffers, 1);
            assert!(segment.has_room(&packed));
            let write = segment.place(packed, number);
            disk.write(&write.file, write.buffer, write.len, write.offset, number);
        }
        assert!(!segment.has_room(&packed(&buffers, 1)));
        segment.close();
        while let Some(done) = disk.done(Duration::MAX) {
            assert!(segment.land(done).is_none());
        }
        assert_eq!(segment.retire(), (Counts { packets: 5, bytes: 300 }, 5 * ALIGNMENT));
        assert!(
            segment.is_finished() && segment.finish().index.is_some_and(|it| it.extents() == 5)
        );
    }
}
