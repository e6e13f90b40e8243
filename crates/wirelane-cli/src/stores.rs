//! Stores that arguments name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use wirelane::pcap::FileId;
use wirelane::{Error, Result};
use wirelane_filter::Filter;
use wirelane_store::{Damage, Directory};

use crate::steering;

/// The file that makes a directory a store.
const STORE_FILE: &str = "wirelane.store";

/// Whether this is the directory of a store.
pub(crate) fn is_store(path: &Path) -> bool {
    path.join(STORE_FILE).exists()
}

/// Splits arguments into the stores, at least one, and the expression after them.
///
/// # Errors
/// The expression is not UTF-8.
pub(crate) fn split(arguments: &[OsString]) -> Result<(Vec<PathBuf>, String)> {
    let is_store = |argument: &&OsString| is_store(Path::new(argument));
    let stores = arguments.iter().skip(1).take_while(is_store).count() + 1;
    let (stores, words) = arguments.split_at(stores.min(arguments.len()));
    let words: Option<Vec<_>> = words.iter().map(|word| word.to_str()).collect();
    let words = words.ok_or_else(|| Error::usage("expression", "it is not UTF-8"))?;
    Ok((stores.iter().map(PathBuf::from).collect(), words.join(" ")))
}

/// Opens the stores to read them.
///
/// # Errors
/// A directory is not a store, or cannot be read.
pub(crate) fn open(paths: &[PathBuf]) -> Result<Vec<Directory>> {
    paths.iter().map(|path| Directory::open(path).map_err(Error::from)).collect()
}

/// The segments of stores and their indexes, which an answer must not replace.
///
/// # Errors
/// A store cannot be read.
pub(crate) fn files(stores: &[Directory]) -> Result<Vec<FileId>> {
    let mut files = Vec::new();
    for store in stores {
        for segment in store.segments()? {
            let names = [segment.name.file_name(), segment.name.index_name()];
            let opened = names.iter().filter_map(|name| store.open_file(name).ok().flatten());
            files.extend(opened.filter_map(|file| FileId::of(&file)));
        }
    }
    Ok(files)
}

/// Damage as an error.
pub(crate) fn damage(damage: &Damage) -> Error {
    let object = format!("{} at byte {}", damage.path.display(), damage.offset);
    Error::failed(object, damage.what.clone())
}

/// The expression, if there is one.
///
/// # Errors
/// The expression is wrong.
pub(crate) fn filter(expression: &str) -> Result<Option<Filter>> {
    if expression.trim().is_empty() {
        return Ok(None);
    }
    steering::filter(expression).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_come_before_the_expression() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name).into_os_string();
        for name in ["a", "b"] {
            std::fs::create_dir(path(name)).unwrap();
            std::fs::write(root.path().join(name).join(STORE_FILE), "").unwrap();
        }
        std::fs::create_dir(path("tcp")).unwrap();
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let (stores, expression) =
            split(&[vec![path("a"), path("b")], words(&["tcp", "port", "80"])].concat()).unwrap();
        assert_eq!(stores.len(), 2);
        assert_eq!(expression, "tcp port 80");
        // The first argument is always a store: opening it shows whether it is one.
        let (stores, expression) = split(&[path("tcp"), path("a")]).unwrap();
        assert_eq!((stores.len(), expression.as_str()), (2, ""));
        let (stores, expression) = split(&words(&["nothing", "net 10"])).unwrap();
        assert_eq!((stores.len(), expression.as_str()), (1, "net 10"));
    }
}
