//! The one place that opens the files of a store.
//!
//! The owner of the directory may put anything there while root records, extracts or mends: links
//! to other files, FIFOs, devices, files with more holes than bytes. So a file is opened without
//! following links and without blocking, and used only if it is regular. A new file never replaces
//! an existing one. A file with other hard links is not written to; if its content does not matter,
//! a new file replaces it.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process;

use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, openat, renameat, seek, statat};
use rustix::io::Errno;

use crate::directory::Directory;
use crate::error::{Error, Result};

/// The flags for every file of a store.
const SAFE: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// How often to try to open or make a file while other processes make or delete it.
const TRIES: u32 = 5;

pub(crate) enum OpenedFile {
    /// A regular file.
    File(File),
    /// Another kind of file, with its name.
    Irregular(&'static str),
    /// The name is free.
    Missing,
}

impl OpenedFile {
    /// The file, if there is one; another kind of file is an error.
    fn file(self, path: &Path) -> Result<Option<File>> {
        match self {
            Self::File(file) => Ok(Some(file)),
            Self::Missing => Ok(None),
            Self::Irregular(what) => Err(irregular(path, what)),
        }
    }
}

impl Directory {
    /// Opens a file of the store for reading; `None` if the name is free. Reads never block.
    ///
    /// # Errors
    /// The file is not regular, or the system refuses.
    pub fn open_file(&self, name: &str) -> Result<Option<File>> {
        self.open_any_kind(name)?.file(&self.path_of(name))
    }

    /// Like [`open_file`](Self::open_file), but another kind of file is not an error.
    pub(crate) fn open_any_kind(&self, name: &str) -> Result<OpenedFile> {
        self.open_with(name, OFlags::RDONLY)
    }

    /// Like [`open_file`](Self::open_file), for reading and writing.
    ///
    /// # Errors
    /// It has other hard links.
    pub(crate) fn open_writable(&self, name: &str) -> Result<Option<File>> {
        let path = self.path_of(name);
        let Some(file) = self.open_with(name, OFlags::RDWR)?.file(&path)? else { return Ok(None) };
        if self.has_other_names(&file, name)? {
            let error = Error::new(path.display().to_string(), "has other names (hard links)");
            return Err(error.help("writing would change these, too: copy the file"));
        }
        Ok(Some(file))
    }

    /// Creates a file that only its owner may read and write. Deletes an existing file of this
    /// name, such as the rest of a killed process: it must not be in use.
    pub(crate) fn create_anew(&self, name: &str) -> Result<File> {
        for _ in 0..TRIES {
            if let Some(file) = self.create_file(name)? {
                return Ok(file);
            }
            self.remove(name)?;
        }
        Err(Error::io(&self.path_of(name), "make", &Errno::EXIST.into()))
    }

    /// Creates a file that only its owner may read and write; `None` if the name is taken.
    pub(crate) fn create_file(&self, name: &str) -> Result<Option<File>> {
        let flags = SAFE | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        match openat(self, name, flags, Mode::from_raw_mode(0o600)) {
            Ok(fd) => Ok(Some(fd.into())),
            Err(Errno::EXIST) => Ok(None),
            Err(errno) => Err(Error::io(&self.path_of(name), "make", &errno.into())),
        }
    }

    /// Opens a file for reading and writing, and creates it if necessary. Call
    /// [`has_other_names`](Self::has_other_names) before writing.
    pub(crate) fn open_or_create(&self, name: &str) -> Result<File> {
        for _ in 0..TRIES {
            let opened = self.open_with(name, OFlags::RDWR)?.file(&self.path_of(name))?;
            if let Some(file) = opened {
                return Ok(file);
            }
            if let Some(file) = self.create_file(name)? {
                return Ok(file);
            }
        }
        Err(Error::io(&self.path_of(name), "open", &Errno::NOENT.into()))
    }

    /// Whether a file of the store has other hard links.
    pub(crate) fn has_other_names(&self, file: &File, name: &str) -> Result<bool> {
        let failed = |error: io::Error| Error::io(&self.path_of(name), "look at", &error);
        Ok(file.metadata().map_err(failed)?.nlink() > 1)
    }

    /// Replaces a file that has other hard links, for example after `cp -al`, by a new, empty file.
    /// The other links keep the old file. `prepare` gets the new file before the rename.
    pub(crate) fn separate(
        &self,
        name: &str,
        prepare: impl FnOnce(&File) -> Result<()>,
    ) -> Result<File> {
        let part = format!("{name}.{}", process::id());
        let file = self.create_anew(&part)?;
        prepare(&file)?;
        let failed = |errno: Errno| Error::io(&self.path_of(name), "replace", &errno.into());
        renameat(self, &*part, self, name).map_err(failed)?;
        Ok(file)
    }

    /// Whether the name refers to this file.
    pub(crate) fn is_named(&self, file: &File, name: &str) -> Result<bool> {
        let failed = |error: io::Error| Error::io(&self.path_of(name), "look at", &error);
        let found = match statat(self, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(false),
            Err(errno) => return Err(failed(errno.into())),
        };
        let own = file.metadata().map_err(failed)?;
        Ok((found.st_dev, found.st_ino) == (own.dev(), own.ino()))
    }

    /// Whether the name is taken.
    pub(crate) fn exists(&self, name: &str) -> Result<bool> {
        match statat(self, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(Error::io(&self.path_of(name), "look at", &errno.into())),
        }
    }

    fn open_with(&self, name: &str, how: OFlags) -> Result<OpenedFile> {
        let failed = |error: io::Error| Error::io(&self.path_of(name), "open", &error);
        match openat(self, name, SAFE | how, Mode::empty()) {
            Ok(fd) => checked(fd).map_err(failed),
            Err(Errno::NOENT) => Ok(OpenedFile::Missing),
            Err(Errno::LOOP) => Ok(OpenedFile::Irregular("a link")),
            // A socket, or a device without a driver; a directory opened for writing.
            Err(Errno::NXIO | Errno::NODEV) => Ok(OpenedFile::Irregular("a socket or a device")),
            Err(Errno::ISDIR) => Ok(OpenedFile::Irregular("a directory")),
            Err(errno) => Err(failed(errno.into())),
        }
    }
}

/// Opens a file by its path, like [`Directory::open_file`].
pub(crate) fn open_path(path: &Path) -> Result<File> {
    let failed = |error: io::Error| Error::io(path, "open", &error);
    let fd = match rustix::fs::open(path, SAFE | OFlags::RDONLY, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::LOOP) => return Err(irregular(path, "a link")),
        Err(errno) => return Err(failed(errno.into())),
    };
    let file = checked(fd).map_err(failed)?.file(path)?;
    file.ok_or_else(|| failed(Errno::NOENT.into()))
}

/// Bytes before the first hole of a file, which are on the disk. The whole length if the file
/// system does not report holes.
pub(crate) fn len_without_holes(file: &File) -> io::Result<u64> {
    let len = file.metadata()?.len();
    match seek(file, SeekFrom::Hole(0)) {
        Ok(hole) => Ok(hole.min(len)),
        // An empty file.
        Err(Errno::NXIO) => Ok(0),
        Err(_) => Ok(len),
    }
}

fn checked(fd: OwnedFd) -> io::Result<OpenedFile> {
    let file = File::from(fd);
    Ok(match kind_of(file.metadata()?.file_type()) {
        None => OpenedFile::File(file),
        Some(what) => OpenedFile::Irregular(what),
    })
}

/// The name of a file's kind; `None` for a regular file.
fn kind_of(kind: fs::FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_fifo() {
        Some("a FIFO")
    } else if kind.is_dir() {
        Some("a directory")
    } else {
        Some("a socket or a device")
    }
}

fn irregular(path: &Path, what: &str) -> Error {
    let error = Error::new(path.display().to_string(), format!("is {what}, not a regular file"));
    error.help("check who may write to the store's directory")
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
