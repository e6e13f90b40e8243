//! Finds the extents of a segment without its index, however damaged the file is.
//!
//! The scan hops from extent to extent by the lengths in their headers. Where a header is missing,
//! the scan continues in steps of [`EXTENT_ALIGNMENT`] to the next header of the same segment with
//! a greater number, and records the gap. Only headers are read; damage inside an extent is found
//! when it is loaded.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::SeekFrom;

use crate::extent::{EXTENT_ALIGNMENT, EXTENT_SIZE, Extent, ExtentHeader, Filler};
use crate::prelude::{self, MAX_PRELUDE};

const STEP: u64 = EXTENT_ALIGNMENT as u64;
/// Bytes read at once to find the next header, and at the start: most preludes are shorter.
const CHUNK: usize = 256 << 10;
const START: usize = 64 << 10;

/// A file with random access, or bytes in its place.
pub trait ReadAt {
    /// Its length.
    ///
    /// # Errors
    /// As of fstat(2).
    fn size(&self) -> io::Result<u64>;

    /// Reads bytes from `offset` on; fewer only at the end.
    ///
    /// # Errors
    /// As of pread(2).
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// The next position from `offset` on that may have non-zero bytes; `None` if there is none.
    fn next_data(&self, offset: u64) -> Option<u64>;
}

impl ReadAt for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut len = 0;
        while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match FileExt::read_at(self, rest, offset + len as u64) {
                Ok(0) => break,
                Ok(more) => len += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(len)
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        match rustix::fs::seek(self, SeekFrom::Data(offset)) {
            Ok(at) => Some(at),
            Err(rustix::io::Errno::NXIO) => None,
            // A file system without this feature.
            Err(_) => Some(offset),
        }
    }
}

impl ReadAt for [u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        (offset < self.len() as u64).then_some(offset)
    }
}

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The segment's random number, if any part has it.
    pub segment: Option<u64>,
    /// Blocks of the prelude (compressed if the segment is), and their plain length; `None` if they
    /// are damaged.
    pub prelude: Option<(Vec<u8>, usize)>,
    /// Offset of the first extent, also if it is missing.
    pub start: u64,
    /// Its extents, in order.
    pub extents: Vec<Extent>,
    /// The damaged parts, in the order of the file.
    pub gaps: Vec<Gap>,
    /// The end of the last extent, or of the damage after it.
    pub end: u64,
    /// Bytes of the file.
    pub size: u64,
}

/// A part of a segment that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Its offset.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
    /// The kind of damage.
    pub kind: GapKind,
}

/// The kind of damage of a part of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GapKind {
    /// One of the two copies of the prelude, or its header. The other copy is used.
    Prelude,
    /// Both copies of the prelude. Without it, the interfaces of packets are unknown.
    NoPrelude,
    /// Bytes other than zeros where an extent's header should be.
    Damaged,
    /// Zeros where an extent should be. Expected if the recorder is running, or died.
    Unwritten,
    /// The file ends inside this extent.
    Cut,
    /// Bytes that were damaged when the segment was mended.
    Mended,
    /// The disk returned this error.
    Unreadable(String),
    /// Extents are missing at the end: the name of the segment has a later time than its packets.
    Short,
}

impl GapKind {
    /// The text for users.
    #[must_use]
    pub fn describe(&self) -> Cow<'static, str> {
        match self {
            Self::Prelude => "the prelude is damaged; its second copy is whole".into(),
            Self::NoPrelude => {
                "the prelude is damaged; the interfaces of its packets are lost".into()
            }
            Self::Damaged => "the header of an extent is damaged".into(),
            Self::Unwritten => "zeros: an extent was never written".into(),
            Self::Cut => "the file is truncated inside an extent".into(),
            Self::Mended => "damaged bytes here were removed when the segment was mended".into(),
            Self::Short => "it is truncated; packets up to the time in its name are missing".into(),
            Self::Unreadable(error) => format!("the disk cannot read it: {error}").into(),
        }
    }
}

/// Finds the extents of a segment.
///
/// # Errors
/// The length or the first bytes cannot be read.
pub fn scan(file: &(impl ReadAt + ?Sized), compressed: bool) -> io::Result<Scan> {
    let scan = prelude(file, compressed)?;
    let mut scanner = Scanner { file, compressed, scan, last: None };
    scanner.extents();
    Ok(scanner.scan)
}

/// Like [`scan`], but only the prelude.
pub(crate) fn prelude(file: &(impl ReadAt + ?Sized), compressed: bool) -> io::Result<Scan> {
    let mut new = Scan { size: file.size()?, ..Scan::default() };
    new.find_prelude(file, compressed)?;
    Ok(new)
}

impl Scan {
    /// Adds a gap if a finished segment with `times` in its name lacks extents at its end. A cut
    /// between two extents is not visible elsewhere.
    pub(crate) fn add_missing_end(&mut self, times: Option<(u64, u64)>) {
        let Some((_, newest)) = times else { return };
        let found = self.extents.iter().filter(|extent| extent.header.packets > 0);
        let is_short = match found.map(|extent| extent.header.newest).max() {
            Some(found) => found < newest,
            None => self.extents.is_empty(),
        };
        // Other gaps are reported already, and may explain the missing packets.
        if is_short && self.gaps.iter().all(|gap| gap.kind == GapKind::Prelude) {
            self.gaps.push(Gap { offset: self.end, len: 0, kind: GapKind::Short });
        }
    }

    fn find_prelude(&mut self, file: &(impl ReadAt + ?Sized), compressed: bool) -> io::Result<()> {
        let mut start = Vec::new();
        for most in [START, MAX_PRELUDE] {
            start = vec![0; most];
            let len = file.read_at(&mut start, 0)?;
            start.truncate(len);
            if let Some(found) = prelude::find(&start, compressed) {
                self.segment = Some(found.segment);
                self.prelude = found.blocks.map(|blocks| (blocks.to_vec(), found.plain));
                self.start = (found.len as u64).min(self.size);
                let kind = match found.blocks {
                    Some(_) if !found.is_damaged => None,
                    Some(_) => Some(GapKind::Prelude),
                    None => Some(GapKind::NoPrelude),
                };
                self.gaps.extend(kind.map(|kind| Gap { offset: 0, len: self.start, kind }));
                self.end = self.start;
                return Ok(());
            }
            if len < most {
                break;
            }
        }
        let is_empty = start.iter().all(|byte| *byte == 0);
        let kind = if is_empty { GapKind::Unwritten } else { GapKind::NoPrelude };
        let len = STEP.min(self.size);
        self.gaps.push(Gap { offset: 0, len, kind });
        (self.start, self.end) = (len, len);
        Ok(())
    }
}

struct Scanner<'a, F: ReadAt + ?Sized> {
    file: &'a F,
    compressed: bool,
    scan: Scan,
    /// The greatest number so far. Headers with lesser numbers are other bytes that look like one.
    last: Option<u32>,
}

impl<F: ReadAt + ?Sized> Scanner<'_, F> {
    fn extents(&mut self) {
        let mut at = self.scan.start;
        let mut head = vec![0; ExtentHeader::disk_len(self.compressed)];
        while at < self.scan.size {
            let len = match self.file.read_at(&mut head, at) {
                Ok(len) => len,
                Err(error) => {
                    at = self.unreadable(at, &error);
                    continue;
                }
            };
            let bytes = head.get(..len).unwrap_or_default();
            if let Some(header) = self.header(bytes) {
                at = self.extent(at, header);
            } else if let Some(end) = self.filler(bytes, at) {
                at = end;
            } else {
                at = self.search(at);
            }
        }
    }

    /// The header of a later extent.
    fn header(&self, bytes: &[u8]) -> Option<ExtentHeader> {
        let header = ExtentHeader::decode(bytes, self.compressed)?;
        let is_ours = self.scan.segment.is_none_or(|segment| segment == header.segment)
            && self.last.is_none_or(|last| header.number > last)
            && header.number != ExtentHeader::PRELUDE
            && header.extent_len(self.compressed) <= EXTENT_SIZE;
        is_ours.then_some(header)
    }

    /// Adds an extent, and returns its end.
    fn extent(&mut self, offset: u64, header: ExtentHeader) -> u64 {
        self.scan.segment = Some(header.segment);
        self.last = Some(header.number);
        let used = ExtentHeader::disk_len(self.compressed) as u64 + u64::from(header.payload);
        let end = offset + header.extent_len(self.compressed) as u64;
        if offset + used > self.scan.size {
            self.gap(offset, self.scan.size, GapKind::Cut);
            return self.scan.size;
        }
        self.scan.extents.push(Extent { offset, header });
        // An extent without its padding is still readable.
        self.scan.end = end.min(self.scan.size);
        end
    }

    /// The end of a filler of whole pages.
    fn filler(&mut self, bytes: &[u8], at: u64) -> Option<u64> {
        let (filler, len) = Filler::find(bytes, self.compressed)?;
        let (_, tail) = filler.around(len, self.compressed);
        let end = at + u64::from(len);
        let mut found = vec![0; tail.len()];
        let read = self.file.read_at(&mut found, end - tail.len() as u64).ok()?;
        if end > self.scan.size || read < tail.len() || found != tail {
            return None;
        }
        match filler {
            Filler::Padding => self.scan.end = end,
            Filler::Damage => self.gap(at, end, GapKind::Mended),
        }
        Some(end)
    }

    /// Searches for the next extent from a position without one, and returns its end.
    fn search(&mut self, from: u64) -> u64 {
        let size = self.scan.size;
        let (mut at, mut is_zero) = (from, true);
        let mut chunk = vec![0; CHUNK];
        while at < size {
            // Holes were never written, and need not be read.
            at = match self.file.next_data(at) {
                Some(data) => (data / STEP * STEP).max(at),
                None => break,
            };
            let len = match self.file.read_at(&mut chunk, at) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) => {
                    self.between(from, at, is_zero);
                    return self.unreadable(at, &error);
                }
            };
            for page in chunk.get(..len).unwrap_or_default().chunks(EXTENT_ALIGNMENT) {
                if let Some(header) = self.header(page) {
                    self.between(from, at, is_zero);
                    // Also at the same position: a recorder may just have written it.
                    return self.extent(at, header);
                }
                is_zero &= page.iter().all(|byte| *byte == 0);
                at += page.len() as u64;
            }
        }
        self.between(from, size, is_zero);
        size
    }

    fn between(&mut self, from: u64, to: u64, is_zero: bool) {
        // Zeros up to the end of the file are space reserved by a recorder.
        if from < to && !(is_zero && to == self.scan.size) {
            self.gap(from, to, if is_zero { GapKind::Unwritten } else { GapKind::Damaged });
        }
    }

    fn unreadable(&mut self, at: u64, error: &io::Error) -> u64 {
        let end = (at / STEP * STEP + STEP).min(self.scan.size);
        self.gap(at, end, GapKind::Unreadable(error.to_string()));
        end
    }

    fn gap(&mut self, offset: u64, end: u64, kind: GapKind) {
        self.scan.end = end;
        if let Some(last) = self.scan.gaps.last_mut()
            && last.kind == kind
            && last.offset + last.len == offset
            && kind != GapKind::Mended
        {
            last.len += end - offset;
            return;
        }
        self.scan.gaps.push(Gap { offset, len: end - offset, kind });
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
