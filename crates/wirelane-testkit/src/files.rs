//! Lists the files below a directory.

use std::fs;
use std::path::{Path, PathBuf};

/// All files below a directory, sorted by path.
#[must_use]
pub fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(below(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The Rust sources below a directory, sorted by path.
#[must_use]
pub fn sources_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = below(directory);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    found
}
