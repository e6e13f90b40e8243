//! Where files go: a directory, an object store, or standard output.

use std::env;
use std::fs;
use std::path::Path as FilePath;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use url::Url;
use wirelane::{Error, Result};

/// What an argument names.
pub(crate) enum Place {
    Output,
    Store(Opened),
}

/// A store, and where in it.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: Path,
}

impl Place {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if text == "-" {
            return Ok(Self::Output);
        }
        match text.split_once("://") {
            Some((scheme, _)) if scheme != "file" => remote(text),
            Some((_, path)) => directory(path),
            None => directory(text),
        }
        .map(Self::Store)
    }
}

/// Files get their names when they are complete: the store writes them beside and renames them.
fn directory(path: &str) -> Result<Opened> {
    let object = || format!("directory {path}");
    fs::create_dir_all(path).map_err(|error| Error::io(object(), "mkdir", error))?;
    let store = LocalFileSystem::new_with_prefix(FilePath::new(path))
        .map_err(|error| Error::failed(object(), error.to_string()))?
        .with_automatic_cleanup(false);
    Ok(Opened { store: Arc::new(store), prefix: Path::default() })
}

/// Keys, region and endpoint are in the environment, by the names that the clouds' own programs use.
fn remote(text: &str) -> Result<Opened> {
    let object = || format!("store {text}");
    let url = Url::parse(text).map_err(|error| Error::usage(object(), error.to_string()))?;
    let variables = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let (store, prefix) = object_store::parse_url_opts(&url, variables).map_err(|error| {
        Error::usage(object(), error.to_string())
            .help("write DIR, s3://BUCKET/PREFIX, gs://… or az://…")
    })?;
    Ok(Opened { store: store.into(), prefix })
}
