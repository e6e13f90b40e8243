//! The packages: their content, directories and version.

use std::fs;
use std::path::PathBuf;

use crate::context::Context;

/// The packages to build.
pub(super) struct Package {
    pub(super) context: Context,
    pub(super) except: Vec<String>,
    /// The directory of all files but programs. It is fixed, because the manifests name it.
    pub(super) stage: PathBuf,
    /// The result.
    pub(super) dist: PathBuf,
}

impl Package {
    /// Whether a crate is packaged.
    pub(super) fn has(&self, name: &str) -> bool {
        !self.except.iter().any(|left_out| left_out == name)
    }

    /// The files of the result whose names end like this.
    pub(super) fn results(&self, suffix: &str) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.dist).into_iter().flatten().flatten();
        let mut files: Vec<_> = files
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().ends_with(suffix))
            .collect();
        files.sort();
        files
    }
}

/// The version of all packages: the workspace's.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
