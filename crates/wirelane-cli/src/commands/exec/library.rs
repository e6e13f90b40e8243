//! Where Wirelane's libpcap is.

use std::env;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use wirelane::{Error, Result};

/// The name of the built file.
const BUILT: &str = "libwirelane_libpcap.so";

/// The name of the installed file: programs of Debian and its descendants link with this name.
const INSTALLED: &str = "libpcap.so.0.8";

/// The installation directory, relative to the directory of the command.
const DIRECTORY: &str = "../lib/wirelane";

/// The requested library, or by default the library that belongs to this command.
///
/// # Errors
/// There is no library; the error names the places. Or the requested file is no such library: the
/// dynamic linker would ignore it.
pub(super) fn find(asked: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = asked {
        let object = || format!("library {}", path.display());
        let found = path.canonicalize().map_err(|error| Error::io(object(), "open", error))?;
        let bytes = begin(&found).map_err(|error| Error::io(object(), "read", error))?;
        return match is_library(&bytes) {
            true => Ok(found),
            false => Err(Error::usage(object(), "it is not Wirelane's libpcap for this machine")
                .help("name the file that `cargo build --release -p wirelane-libpcap` makes")),
        };
    }
    let command = env::current_exe()
        .map_err(|error| Error::io("this command", "readlink /proc/self/exe", error))?;
    let directory = command.parent().unwrap_or(Path::new("/"));
    let places = [directory.join(BUILT), directory.join(DIRECTORY).join(INSTALLED)];
    places.iter().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok()).ok_or_else(
        || {
            let cause = format!("it is neither beside this command nor in {DIRECTORY}");
            Error::usage("Wirelane's libpcap", cause)
                .help("give --library FILE, or build it: cargo build --release -p wirelane-libpcap")
        },
    )
}

/// The first bytes of a file, names of its functions included.
fn begin(path: &Path) -> io::Result<Vec<u8>> {
    const ENOUGH: u64 = 1 << 20;
    let mut bytes = Vec::new();
    File::open(path)?.take(ENOUGH).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether a file is a shared object for this machine (elf(5)) with libpcap's functions.
fn is_library(bytes: &[u8]) -> bool {
    const SHARED_OBJECT: u16 = 3;
    const MARK: &[u8] = b"pcap_open_live\0";
    let own = begin(Path::new("/proc/self/exe")).unwrap_or_default();
    let half = |bytes: &[u8], at: usize| {
        let half = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(u16::from_ne_bytes(half))
    };
    // Magic number, word size and byte order; then the kind of file, then the machine.
    bytes.get(..6).is_some_and(|begin| begin.starts_with(b"\x7fELF") && own.starts_with(begin))
        && half(bytes, 16) == Some(SHARED_OBJECT)
        && half(bytes, 18) == half(&own, 18)
        && bytes.windows(MARK.len()).any(|window| window == MARK)
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
    fn what_is_no_library_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join(BUILT);
        let own = fs::read("/proc/self/exe").unwrap();
        for bytes in [&b""[..], b"no library", &own[..100]] {
            fs::write(&library, bytes).unwrap();
            let error = find(Some(&library)).unwrap_err().to_string();
            assert!(error.contains("it is not Wirelane's libpcap"), "{error}");
        }
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
