//! Directories and files of the target directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The entries of `directory`, sorted by name.
pub(crate) fn list(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).map(|entries| entries.flatten().collect::<Vec<_>>());
    let mut paths: Vec<_> =
        entries.unwrap_or_default().into_iter().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

pub(crate) fn create(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory)
        .map_err(|error| format!("cannot create {}: {error}", directory.display()))
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Removes a directory with its content; there may be none.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
