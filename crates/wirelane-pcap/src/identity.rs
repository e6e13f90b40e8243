//! Which file it is, whatever it is called.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// A file by its device and inode: the same through hard and symbolic links, `/dev/stdin` and
/// redirections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// That of an open file; `None` for what holds nothing that writing could destroy, such as a
    /// pipe or a terminal.
    #[must_use]
    pub fn of(file: &File) -> Option<Self> {
        let metadata = file.metadata().ok()?;
        let kind = metadata.file_type();
        let holds = kind.is_file() || kind.is_block_device();
        holds.then(|| Self { device: metadata.dev(), inode: metadata.ino() })
    }
}
