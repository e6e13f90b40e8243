//! The executor's private directory of intermediate results.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::{env, process};

use wirelane::{Error, Result};

/// Removes the directory when it is dropped.
pub(crate) struct WorkDirectory(PathBuf);

impl WorkDirectory {
    /// Makes the directory below `parent`, or below the system's directory for temporary files.
    pub(crate) fn new(parent: Option<&Path>) -> Result<Self> {
        let parent = parent.map_or_else(env::temp_dir, Path::to_owned);
        let path = parent.join(format!("wirelane-executor-{}", process::id()));
        let object = || format!("directory {}", path.display());
        fs::create_dir_all(&parent).map_err(|error| {
            Error::io(format!("directory {}", parent.display()), "mkdir", error)
        })?;
        // A killed process with the same number left it.
        if path.is_dir() {
            fs::remove_dir_all(&path).map_err(|error| Error::io(object(), "unlink", error))?;
        }
        // It must be new: another user may have made one in a shared parent.
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| Error::io(object(), "mkdir", error))?;
        if path.to_str().is_none() {
            return Err(Error::usage(object(), "its name is no text"));
        }
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
}

impl Drop for WorkDirectory {
    fn drop(&mut self) {
        // On failure, the directory stays.
        let _ = fs::remove_dir_all(&self.0);
    }
}
