//! Queries an index. Only the parts of the file that the answer needs are read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::format::{
    BLOCK_LEN, EXTENT_LEN, Fault, FieldBlock, FieldEntry, HEADER_LEN, IndexHeader, decode_extent,
    is_whole,
};
use super::sets;
use crate::error::{Error, Result};
use crate::extent::Extent;
use crate::extent_set::ExtentSet;
use crate::files::{len_without_holes, open_path};
use crate::key::{Field, Term};

/// The index of a segment.
pub struct Index {
    source: IndexSource,
    /// Its name in errors.
    name: String,
    header: IndexHeader,
    extents: Vec<Extent>,
}

impl Index {
    /// Opens the index in this file.
    ///
    /// # Errors
    /// The file cannot be read, is not a regular file or an index, or has another version; or its
    /// header or list of extents is damaged. [`lookup`](Self::lookup) reports other damage.
    pub fn open(path: &Path) -> Result<Self> {
        Self::from_file(open_path(path)?, path)
    }

    /// The index in an open file; `path` is its name in errors.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn from_file(file: File, path: &Path) -> Result<Self> {
        let len = len_without_holes(&file).map_err(|error| Error::io(path, "examine", &error))?;
        Self::from_source(IndexSource::File { file, len }, path.display().to_string())
    }

    /// The index in the bytes of [`IndexBuilder::finish`](super::IndexBuilder::finish); `name` is
    /// its name in errors.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_bytes(bytes: Vec<u8>, name: impl Into<String>) -> Result<Self> {
        Self::from_source(IndexSource::Bytes(bytes), name.into())
    }

    fn from_source(source: IndexSource, name: String) -> Result<Self> {
        match read_start(&source) {
            Ok((header, extents)) => Ok(Self { source, name, header, extents }),
            Err(failure) => Err(failure.of(&name)),
        }
    }

    /// The random number of the segment that it belongs to.
    #[must_use]
    pub fn segment(&self) -> u64 {
        self.header.segment
    }

    /// The extents of the segment, in their order.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The number of distinct values of a field in the segment, without overflowed ones.
    #[must_use]
    pub fn keys(&self, field: Field) -> u64 {
        self.header.field(field).map_or(0, |entry| entry.keys)
    }

    /// The extents that may hold packets with a key in the term's range. No other extent holds one.
    ///
    /// # Errors
    /// The part of the file with the answer cannot be read, or is damaged.
    pub fn lookup(&self, term: &Term) -> Result<ExtentSet> {
        self.lookup_ranges(term.field, &[(term.first, term.last)])
    }

    /// The extents that may hold packets with one of these values, which are in ascending order.
    /// Reads each part of the file at most once.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn lookup_any(&self, field: Field, values: &[u128]) -> Result<ExtentSet> {
        let ranges: Vec<_> = values.iter().map(|value| (*value, *value)).collect();
        self.lookup_ranges(field, &ranges)
    }

    /// Looks up ascending ranges.
    fn lookup_ranges(&self, field: Field, ranges: &[(u128, u128)]) -> Result<ExtentSet> {
        let Some(entry) = self.header.field(field) else {
            return Ok(ExtentSet::all(self.extents.len()));
        };
        self.search(entry, ranges).map_err(|failure| failure.of(&self.name))
    }

    fn search(
        &self,
        entry: &FieldEntry,
        ranges: &[(u128, u128)],
    ) -> std::result::Result<ExtentSet, IndexFailure> {
        let universe = self.extents.len();
        let mut found = ExtentSet::none(universe);
        let bytes = self.source.read(entry.directory_at, entry.directory_len)?;
        if !is_whole(&bytes, entry.checksum) {
            return Err("a directory is damaged".into());
        }
        let split = usize::try_from(entry.blocks).ok().and_then(|it| it.checked_mul(BLOCK_LEN));
        let Some((blocks, mut overflow)) = split.and_then(|at| bytes.split_at_checked(at)) else {
            return Err("a directory is wrong".into());
        };
        let wrong = "a directory is wrong";
        sets::decode(&mut overflow, universe, Some(&mut found)).ok_or(wrong)?;
        let block = |at: usize| FieldBlock::decode(&blocks[at * BLOCK_LEN..]);
        let count = blocks.len() / BLOCK_LEN;
        let mut unread = 0;
        for (at, (first, last)) in ranges.iter().enumerate() {
            unread = last_not_above(*first, count, |at| block(at).first).max(unread);
            while unread < count && block(unread).first <= *last {
                self.search_block(&block(unread), &ranges[at..], &mut found)?;
                unread += 1;
            }
        }
        Ok(found)
    }

    /// Adds the extents of a block's keys in one of the ranges.
    fn search_block(
        &self,
        block: &FieldBlock,
        mut ranges: &[(u128, u128)],
        found: &mut ExtentSet,
    ) -> std::result::Result<(), IndexFailure> {
        let bytes = self.source.read(block.offset, block.len.into())?;
        if !is_whole(&bytes, block.checksum) {
            return Err("a block is damaged".into());
        }
        let (mut rest, mut key) = (&bytes[..], block.first);
        let wrong = "a block is wrong";
        while !rest.is_empty() {
            let distance = sets::take_wide_number(&mut rest).ok_or(wrong)?;
            key = key.checked_add(distance).ok_or(wrong)?;
            while ranges.first().is_some_and(|(_, last)| *last < key) {
                ranges = &ranges[1..];
            }
            let Some((first, _)) = ranges.first() else { break };
            let set = (key >= *first).then_some(&mut *found);
            sets::decode(&mut rest, self.extents.len(), set).ok_or(wrong)?;
        }
        Ok(())
    }
}

/// The last of `count` ascending keys that is not greater than `key`; 0 if there is none.
fn last_not_above(key: u128, count: usize, at: impl Fn(usize) -> u128) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if at(middle) <= key { low = middle + 1 } else { high = middle }
    }
    low.saturating_sub(1)
}

fn read_start(
    source: &IndexSource,
) -> std::result::Result<(IndexHeader, Vec<Extent>), IndexFailure> {
    let start = source.read(0, HEADER_LEN as u64)?;
    let header = IndexHeader::decode(start.first_chunk().ok_or("it is cut off")?)?;
    if source.len() != header.file_len {
        return Err("it is cut off".into());
    }
    let len = u64::from(header.extents) * EXTENT_LEN as u64;
    let bytes = source.read(header.extents_at, len)?;
    if !is_whole(&bytes, header.extents_checksum) {
        return Err("its list of extents is damaged".into());
    }
    let entries = bytes.chunks_exact(EXTENT_LEN);
    let extents = entries.map(|bytes| decode_extent(header.segment, bytes)).collect();
    Ok((header, extents))
}

/// The location of the bytes.
enum IndexSource {
    /// `len` is the real length of the file, and limits the memory that is allocated.
    File {
        file: File,
        len: u64,
    },
    Bytes(Vec<u8>),
}

impl IndexSource {
    fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } => *len,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Reads exactly these bytes.
    fn read(&self, offset: u64, len: u64) -> std::result::Result<Vec<u8>, IndexFailure> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len());
        let (Some(_), Ok(len)) = (end, usize::try_from(len)) else {
            return Err("it is cut off".into());
        };
        match self {
            Self::File { file, .. } => {
                let mut bytes = vec![0; len];
                file.read_exact_at(&mut bytes, offset)?;
                Ok(bytes)
            }
            Self::Bytes(bytes) => Ok(bytes[offset as usize..][..len].to_vec()),
        }
    }
}

/// Why there is no answer.
enum IndexFailure {
    Io(io::Error),
    Fault(Fault),
}

impl IndexFailure {
    fn of(self, name: &str) -> Error {
        match self {
            Self::Io(error) => Error::io(Path::new(name), "read", &error),
            Self::Fault(fault) => {
                let help = "the segment is intact; `wirelane extract --reindex` rebuilds the index";
                Error::new(name, fault).help(help)
            }
        }
    }
}

impl From<io::Error> for IndexFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Fault> for IndexFailure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}
