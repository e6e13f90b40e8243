//! Where Wirelane's libpcap is.

use std::env;
use std::path::{Path, PathBuf};

use wirelane::{Error, Result};

/// The file as it is built.
const BUILT: &str = "libwirelane_libpcap.so";

/// The file as it is installed: by the name that programs of Debian and its descendants ask for.
const INSTALLED: &str = "libpcap.so.0.8";

/// Where it is installed, from the directory of the command.
const DIRECTORY: &str = "../lib/wirelane";

/// The library that was asked for, or that which belongs to this command.
///
/// # Errors
/// There is none: where it was looked for.
pub(super) fn find(asked: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = asked {
        return path
            .canonicalize()
            .map_err(|error| Error::io(format!("library {}", path.display()), "realpath", error));
    }
    let command = env::current_exe()
        .map_err(|error| Error::io("this command", "readlink /proc/self/exe", error))?;
    let directory = command.parent().unwrap_or(Path::new("/"));
    let places = [directory.join(BUILT), directory.join(DIRECTORY).join(INSTALLED)];
    places.iter().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok()).ok_or_else(
        || {
            let tried = places.each_ref().map(|path| path.display().to_string()).join(" and ");
            Error::usage("Wirelane's libpcap", format!("there is no {tried}")).help(
                "build it (cargo build --release -p wirelane-libpcap), or name its file: --library \
                 FILE",
            )
        },
    )
}

/// The directory of the library, if it has libpcap's names there.
pub(super) fn names(library: &Path) -> Option<PathBuf> {
    let directory = library.parent()?;
    let is_named = |name| directory.join(name).exists();
    (is_named("libpcap.so.1") || is_named(INSTALLED)).then(|| directory.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_an_error() {
        let error = find(Some(Path::new("/nonexistent.so"))).unwrap_err().to_string();
        assert!(error.contains("library /nonexistent.so"), "{error}");
    }

    #[test]
    fn the_directory_counts_if_it_has_the_names() {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join(BUILT);
        fs::write(&library, "").unwrap();
        assert_eq!(names(&library), None);
        fs::write(directory.path().join("libpcap.so.1"), "").unwrap();
        assert_eq!(names(&library).as_deref(), Some(directory.path()));
    }
}
