//! An open segment: its interfaces, its extents, and their blocks.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use wirelane_pcap::{CaptureReader, Source};

use super::loader::Loader;
use super::request::Damage;
use crate::directory::Directory;
use crate::disk;
use crate::error::{Error, Result};
use crate::extent::{EXTENT_SIZE, Extent};
use crate::index::Index;
use crate::names::SegmentName;
use crate::scan::{self, GapKind, Scan};

/// A segment opened for reading. It remains readable after its deletion.
pub struct Segment {
    name: SegmentName,
    path: PathBuf,
    file: File,
    sources: Vec<Source>,
    extents: Vec<Extent>,
    index: Option<Index>,
    damage: Vec<Damage>,
}

impl Segment {
    /// Opens a segment of a directory, under its new name if it was finished since; `None` if it
    /// was deleted. An unfinished segment has the extents that are written now.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open(directory: &Directory, name: &SegmentName) -> Result<Option<Self>> {
        let Some((name, file)) = directory.open_segment(name)? else { return Ok(None) };
        let path = directory.path_of(&name.file_name());
        let mut new = Self {
            name,
            file,
            sources: Vec::new(),
            extents: Vec::new(),
            index: None,
            damage: Vec::new(),
            path,
        };
        let compressed = name.is_compressed();
        let failed = |error| Error::io(&new.path, "read", &error);
        let mut scan = scan::prelude(&new.file, compressed).map_err(failed)?;
        let index = match scan.segment.map(|id| new.open_index(directory, id)).transpose() {
            Ok(index) => index.flatten(),
            Err(error) => {
                let path = directory.path_of(&name.index_name());
                let what = error.cause().to_owned().into();
                new.damage.push(Damage { path, offset: 0, what });
                None
            }
        };
        if index.is_none() {
            scan = scan::scan(&new.file, compressed).map_err(failed)?;
            scan.add_missing_end(name.times);
        }
        for gap in &scan.gaps {
            // The recorder is running, or died: unwritten parts are not damage.
            if !(name.is_part() && gap.kind == GapKind::Unwritten) {
                new.damaged(gap.offset, gap.kind.describe());
            }
        }
        match scan.prelude.map(|(blocks, _)| sources_of(blocks, &new.path)) {
            Some(Ok(sources)) => new.sources = sources,
            Some(Err(_)) => {
                new.damaged(0, "its interfaces are unknown: the prelude is invalid".into());
                return Ok(Some(new));
            }
            None => return Ok(Some(new)),
        }
        new.extents = match &index {
            Some(index) => index.extents().to_vec(),
            None => scan.extents,
        };
        new.index = index;
        // Extents are read once, and a recorder does not need the page cache. If direct I/O is
        // available, the disk fills our memory three times as fast.
        let _ = disk::make_direct(&new.file);
        Ok(Some(new))
    }

    /// A segment whose extents were found by a scan, without its index.
    pub(crate) fn scanned(name: SegmentName, path: PathBuf, file: File, scan: &Scan) -> Self {
        let blocks = scan.prelude.as_ref().map(|(blocks, _)| blocks.clone());
        let sources = blocks.and_then(|blocks| sources_of(blocks, &path).ok()).unwrap_or_default();
        let extents = scan.extents.clone();
        Self { name, path, file, sources, extents, index: None, damage: Vec::new() }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &SegmentName {
        &self.name
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The interfaces of its packets.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Its extents, in the order of the file.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Its index, if it has a usable one.
    #[must_use]
    pub fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// The damage that opening found.
    #[must_use]
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The blocks of an extent, checked and decompressed.
    ///
    /// # Errors
    /// They are damaged, or cannot be read.
    pub fn load<'a>(
        &self,
        extent: &Extent,
        loader: &'a mut Loader,
    ) -> std::result::Result<&'a [u8], Damage> {
        let damage = |what| Damage { path: self.path.clone(), offset: extent.offset, what };
        let compressed = self.name.is_compressed();
        let header = &extent.header;
        let (len, plain) = (header.extent_len(compressed), header.plain as usize);
        if len > EXTENT_SIZE
            || plain > EXTENT_SIZE
            || (!compressed && header.plain != header.payload)
        {
            return Err(damage("its extent exceeds the maximum length".into()));
        }
        match loader.read(&self.file, extent, compressed) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(damage("its extent is truncated".into()));
            }
            Err(error) => return Err(damage(format!("its extent cannot be read: {error}").into())),
        }
        if !header.matches(loader.payload()) {
            return Err(damage("its extent is damaged: wrong checksum".into()));
        }
        let Some(compression) = self.name.compression else { return Ok(loader.payload()) };
        match loader.decompress(compression, plain) {
            Ok(()) => Ok(loader.plain()),
            Err(error) => Err(damage(format!("its extent cannot be decompressed: {error}").into())),
        }
    }

    fn damaged(&mut self, offset: u64, what: Cow<'static, str>) {
        self.damage.push(Damage { path: self.path.clone(), offset, what });
    }

    /// Opens the index of a finished segment.
    fn open_index(&self, directory: &Directory, segment: u64) -> Result<Option<Index>> {
        let name = self.name.index_name();
        let path = directory.path_of(&name);
        if self.name.is_part() {
            return Ok(None);
        }
        let Some(file) = directory.open_file(&name)? else { return Ok(None) };
        let index = Index::from_file(file, &path)?;
        if index.segment() != segment {
            return Err(Error::new(path.display().to_string(), "it is of another segment"));
        }
        Ok(Some(index))
    }
}

/// The interfaces of a prelude, plain or compressed.
fn sources_of(prelude: Vec<u8>, path: &Path) -> Result<Vec<Source>> {
    let mut reader = CaptureReader::from_reader(Cursor::new(prelude), &path.display().to_string())?;
    while reader.advance()? {}
    Ok(reader.interfaces().to_vec())
}
