//! The directory of a store. It lists segments while a recorder adds, renames and deletes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, open, statat};
use rustix::io::Errno;
use wirelane_pcap::Access;

use crate::error::{Error, Result};
use crate::names::{STORE_FILE, SegmentName, StoreFile};

/// A segment of a directory, as of the listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Its name.
    pub name: SegmentName,
    /// Whether there is an index beside it.
    pub has_index: bool,
    /// Whether a pin protects it from deletion.
    pub is_pinned: bool,
}

/// The directory of a store.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    fd: OwnedFd,
    id: Option<u64>,
}

impl Directory {
    /// Opens the store at `path` for writing. Creates the directory and the store if they do not
    /// exist. Other files in the directory are not touched.
    ///
    /// # Errors
    /// The system refuses, or the store has another version.
    pub fn create(path: &Path, access: Access) -> Result<Self> {
        if let Err(error) = fs::metadata(path)
            && error.kind() == io::ErrorKind::NotFound
        {
            fs::create_dir_all(path).map_err(|error| Error::io(path, "make", &error))?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = open(path, flags, Mode::empty()).map_err(io::Error::from);
            made.and_then(|dir| access.apply_to_directory(dir))
                .map_err(|error| Error::io(path, "set the permissions of", &error))?;
        }
        let mut directory = Self::open_any(path)?;
        if directory.id.is_none() {
            directory.write_store_file(access)?;
            directory.id = directory.read_store_file()?;
        }
        Ok(directory)
    }

    /// Opens the store at `path` for reading. A directory of segments without a store file, such as
    /// a copy, is accepted, too.
    ///
    /// # Errors
    /// The system refuses, or it is not a store, or a store of another version.
    pub fn open(path: &Path) -> Result<Self> {
        let directory = Self::open_any(path)?;
        if directory.id.is_none() && directory.list()?.segments.is_empty() {
            let error = Error::new(path.display().to_string(), "is not a store: no segments in it");
            return Err(error.help("give a directory that `wirelane record` wrote"));
        }
        Ok(directory)
    }

    /// The path given to [`create`](Self::create) or [`open`](Self::open).
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of one of its files.
    #[must_use]
    pub fn path_of(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// The random number of the store; `None` for a directory without a store file.
    #[must_use]
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// The read permissions, derived from the store file.
    #[must_use]
    pub fn access(&self) -> Access {
        let Ok(Some(file)) = self.open_file(STORE_FILE) else { return Access::default() };
        let Ok(stat) = fstat(file) else { return Access::default() };
        let mode = stat.st_mode & 0o777;
        let access = Access { mode: None, group: (mode & 0o060 != 0).then_some(stat.st_gid) };
        Access { mode: Some(mode).filter(|mode| *mode != access.file_mode()), ..access }
    }

    /// The segments, ordered by number. Lists every segment that exists during the whole call,
    /// including a segment that is finished, and so renamed, at the same time. Some may be deleted
    /// before they are opened.
    ///
    /// # Errors
    /// The system refuses.
    pub fn segments(&self) -> Result<Vec<SegmentEntry>> {
        Ok(self.list()?.segments)
    }

    /// Opens a segment for reading, under its new name if it was finished since; `None` if it was
    /// deleted.
    ///
    /// # Errors
    /// The system refuses.
    pub fn open_segment(&self, name: &SegmentName) -> Result<Option<(SegmentName, File)>> {
        if let Some(file) = self.open_file(&name.file_name())? {
            return Ok(Some((*name, file)));
        }
        let is_same = |entry: &SegmentEntry| {
            name.is_part()
                && !entry.name.is_part()
                && (entry.name.lane, entry.name.number) == (name.lane, name.number)
        };
        match self.list()?.segments.into_iter().find(is_same) {
            Some(entry) => {
                let file = self.open_file(&entry.name.file_name())?;
                Ok(file.map(|file| (entry.name, file)))
            }
            None => Ok(None),
        }
    }

    /// Bytes that a file occupies on disk; 0 if it does not exist.
    ///
    /// # Errors
    /// The system refuses.
    pub fn disk_usage(&self, name: &str) -> Result<u64> {
        match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(u64::try_from(stat.st_blocks).unwrap_or(0) * 512),
            Err(Errno::NOENT) => Ok(0),
            Err(errno) => Err(Error::io(&self.path_of(name), "look at", &errno.into())),
        }
    }

    /// All files of the store.
    ///
    /// A listing may miss a file that is renamed while it runs. A segment is renamed only once. So
    /// if the second listing misses it, the first one has its old name.
    pub(crate) fn list(&self) -> Result<Listing> {
        let mut names = self.names()?;
        names.append(&mut self.names()?);
        Ok(Listing::new(names.iter().filter_map(|name| StoreFile::parse(name))))
    }

    fn names(&self) -> Result<BTreeSet<String>> {
        let failed = |errno: Errno| Error::io(&self.path, "list", &errno.into());
        let mut names = BTreeSet::new();
        for entry in Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            names.extend(entry.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    }

    fn open_any(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty())
            .map_err(|errno| Error::io(path, "open", &errno.into()))?;
        let mut directory = Self { path: path.into(), fd, id: None };
        directory.id = directory.read_store_file()?;
        Ok(directory)
    }

    fn read_store_file(&self) -> Result<Option<u64>> {
        let Some(file) = self.open_file(STORE_FILE)? else { return Ok(None) };
        let path = self.path_of(STORE_FILE);
        let mut text = String::new();
        file.take(4096)
            .read_to_string(&mut text)
            .map_err(|error| Error::io(&path, "read", &error))?;
        parse_store_file(&text).map(Some).ok_or_else(|| {
            let error = Error::new(path.display().to_string(), "does not describe a store");
            error.help("a newer version of Wirelane may have made it")
        })
    }

    /// Makes the directory a store. If two programs try at once, the first one wins.
    fn write_store_file(&self, access: Access) -> Result<()> {
        let failed = |error: io::Error| Error::io(&self.path_of(STORE_FILE), "make", &error);
        let part = format!("{STORE_FILE}.{}", std::process::id());
        let mut file = self.create_anew(&part)?;
        let written = file
            .write_all(format_store_file(random_number()).as_bytes())
            .and_then(|()| access.apply(&file))
            .and_then(|()| file.sync_all());
        // A link, unlike a rename, does not replace.
        let linked = written.and_then(|()| {
            match rustix::fs::linkat(&self.fd, &part, &self.fd, STORE_FILE, AtFlags::empty()) {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                // A file system without hard links.
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK) => {
                    Ok(rustix::fs::renameat(&self.fd, &part, &self.fd, STORE_FILE)?)
                }
                Err(errno) => Err(errno.into()),
            }
        });
        let _ = rustix::fs::unlinkat(&self.fd, &part, AtFlags::empty());
        linked.map_err(failed)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An unpredictable number.
#[must_use]
pub fn random_number() -> u64 {
    // Its keys come from the system's random numbers.
    RandomState::new().hash_one(std::process::id())
}

/// A store's files in a directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// In the order of their numbers.
    pub(crate) segments: Vec<SegmentEntry>,
    /// Indexes without a segment, unfinished indexes, and pins without a segment.
    pub(crate) orphans: Vec<StoreFile>,
    /// A number above the number of every file.
    pub(crate) next_number: u64,
}

impl Listing {
    fn new(files: impl Iterator<Item = StoreFile>) -> Self {
        let (mut segments, mut rest) = (BTreeMap::new(), Vec::new());
        let mut new = Self::default();
        for file in files {
            let number = match file {
                StoreFile::Segment(name) => {
                    segments.insert((name.number, name.lane, name.file_name()), name);
                    name.number
                }
                StoreFile::Index(name) | StoreFile::IndexPart(name) => name.number,
                StoreFile::Pin(_, number) => number,
            };
            if !matches!(file, StoreFile::Segment(_)) {
                rest.push(file);
            }
            new.next_number = new.next_number.max(number.saturating_add(1));
        }
        let mut indexes = BTreeSet::new();
        let mut pins = BTreeSet::new();
        let finished: BTreeSet<_> =
            segments.values().filter(|name| !name.is_part()).map(series).collect();
        let all: BTreeSet<_> = segments.values().map(series).collect();
        for file in rest {
            match file {
                StoreFile::Index(name)
                    if segments.contains_key(&(name.number, name.lane, name.file_name())) =>
                {
                    indexes.insert(name.file_name());
                }
                StoreFile::Pin(lane, number) if all.contains(&(lane, number)) => {
                    pins.insert((lane, number));
                }
                orphan => new.orphans.push(orphan),
            }
        }
        // If both names are listed, it was finished in between.
        let current = |name: &SegmentName| !name.is_part() || !finished.contains(&series(name));
        let entry = |name: SegmentName| SegmentEntry {
            name,
            has_index: indexes.contains(&name.file_name()),
            is_pinned: pins.contains(&series(&name)),
        };
        new.segments = segments.into_values().filter(current).map(entry).collect();
        new
    }
}

fn series(name: &SegmentName) -> (u32, u64) {
    (name.lane, name.number)
}

fn format_store_file(id: u64) -> String {
    format!("{{\"format\":\"wirelane.store/1\",\"id\":\"{id:016x}\"}}\n")
}

fn parse_store_file(text: &str) -> Option<u64> {
    let (_, id) = text.split_once("\"id\":\"")?;
    let id = u64::from_str_radix(id.get(..16)?, 16).ok()?;
    (format_store_file(id) == text).then_some(id)
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
