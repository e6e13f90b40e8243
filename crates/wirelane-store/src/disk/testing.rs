//! A directory for a test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new directory, removed with its content when dropped.
pub(super) struct Scratch {
    path: PathBuf,
    directory: File,
}

impl Scratch {
    /// On the disk of temporary files.
    pub(super) fn on_disk() -> Self {
        Self::within(&std::env::temp_dir())
    }

    /// In a tmpfs.
    pub(super) fn in_memory() -> Self {
        Self::within(Path::new("/dev/shm"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn directory(&self) -> &File {
        &self.directory
    }

    fn within(parent: &Path) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("wirelane-disk-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self { directory: File::open(&path).unwrap(), path }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
