//! The identity of a file, independent of its name.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

use crate::error::CaptureError;
use crate::system;

/// A file by its device and inode: equal through hard and symbolic links, `/dev/stdin` and
/// redirections. Supported only on Unix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The identity of an open file; `None` for a pipe or a terminal, which hold no data that
    /// writing could destroy.
    #[must_use]
    pub fn of(file: &File) -> Option<Self> {
        Self::told(&file.metadata().ok()?)
    }

    /// The identity of the file that a path leads to, through links; `None` as for [`FileId::of`],
    /// or if there is no file.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        Self::told(&fs::metadata(path).ok()?)
    }

    /// The identity of the input `path`: `-` is standard input.
    #[must_use]
    pub fn of_input(path: &Path) -> Option<Self> {
        if path.as_os_str() == "-" { Self::open(system::standard_input()) } else { Self::at(path) }
    }

    /// The identity of the output `path`: `-` is standard output.
    #[must_use]
    pub fn of_output(path: &Path) -> Option<Self> {
        if path.as_os_str() == "-" { Self::open(system::standard_output()) } else { Self::at(path) }
    }

    /// Refuses an output that is one of the inputs. Call this before a file is opened for writing.
    ///
    /// # Errors
    /// `output` leads to one of the files `inputs`.
    pub fn refuse(output: &Path, inputs: &[Self]) -> Result<(), CaptureError> {
        match Self::of_output(output).is_some_and(|id| inputs.contains(&id)) {
            true => Err(CaptureError::IsInput { name: output.display().to_string() }),
            false => Ok(()),
        }
    }

    fn open(file: io::Result<File>) -> Option<Self> {
        Self::of(&file.ok()?)
    }

    /// The identity of the file with this name, without following a link.
    pub(crate) fn named(path: &Path) -> Option<Self> {
        Self::told(&fs::symlink_metadata(path).ok()?)
    }

    fn told(metadata: &Metadata) -> Option<Self> {
        system::identity(metadata).map(|(device, inode)| Self { device, inode })
    }
}
