//! Where files go: a directory, an object store, or standard output.

use std::fs;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use wirelane::{Error, Result};

use crate::stores::{self, OpenedStore, RetryPolicy};

/// The destination that an argument names.
pub(crate) enum SinkTarget {
    Output,
    Store(OpenedStore),
}

/// For whole files, 128 MiB by default: some hosts have slow uplinks. Few retries, because files
/// wait in the spool while the store is unreachable.
const WRITING: RetryPolicy = RetryPolicy { request: Duration::from_secs(120), retries: 2 };

impl SinkTarget {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if text == "-" {
            return Ok(Self::Output);
        }
        match text.split_once("://") {
            Some((scheme, _)) if scheme != "file" => stores::open(text, WRITING),
            Some((_, path)) => directory(path),
            None => directory(text),
        }
        .map(Self::Store)
    }
}

/// The store writes a file under a temporary name, and renames the complete file.
fn directory(path: &str) -> Result<OpenedStore> {
    let object = || format!("directory {path}");
    fs::create_dir_all(path).map_err(|error| Error::io(object(), "mkdir", error))?;
    let store = LocalFileSystem::new_with_prefix(FilePath::new(path))
        .map_err(|error| Error::failed(object(), error.to_string()))?
        .with_automatic_cleanup(false);
    Ok(OpenedStore { store: Arc::new(store), prefix: Path::default() })
}
