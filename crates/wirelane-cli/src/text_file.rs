//! Text in a file that the user names, or on standard input, of a length with a limit: a device or
//! a pipe may never end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use wirelane::{Error, Result};
use wirelane_gen::otg::{self, OtgConfig};

use crate::output;

/// Longer filters would take libpcap more than an hour to compile.
pub(crate) const LONGEST_FILTER: u64 = 1 << 20;
/// Longest file of flows.
const LONGEST_FLOWS: u64 = 64 << 20;

/// Parses a file of flows (Open Traffic Generator). Packets have `signature` more bytes.
///
/// # Errors
/// As [`read`], or the file describes no flows that can be sent.
pub(crate) fn flows(path: &Path, signature: usize) -> Result<OtgConfig> {
    let text = read(path, LONGEST_FLOWS, "a flow file")?;
    let config = otg::parse(&text, &|_| signature);
    config.map_err(|error| {
        Error::failed(path.display().to_string(), error.to_string())
            .help("docs/send.md describes such files")
    })
}

/// The text in the file `path`, or on standard input if that is `-`. It is `what`, such as "a
/// filter", and has `most` bytes at most.
///
/// # Errors
/// It cannot be read, is longer, or is no UTF-8.
pub(crate) fn read(path: &Path, most: u64, what: &str) -> Result<String> {
    let is_input = path.as_os_str() == "-";
    let name = output::name_of(path, "standard input");
    let failed = |call| {
        let name = name.clone();
        move |error| Error::io(name, call, error)
    };
    let mut text = String::new();
    let length = if is_input {
        io::stdin().take(most + 1).read_to_string(&mut text)
    } else {
        let file = File::open(path).map_err(failed("open"))?;
        file.take(most + 1).read_to_string(&mut text)
    };
    if length.map_err(failed("read"))? as u64 > most {
        let cause = format!("longer than {} MiB: not {what}", most >> 20);
        return Err(Error::failed(name, cause).help("name another file"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_refused() {
        let error = read(Path::new("/dev/zero"), 1 << 20, "a filter").unwrap_err();
        assert_eq!(
            error.to_string(),
            "/dev/zero: longer than 1 MiB: not a filter; name another file"
        );
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("text");
        for (length, is_read) in [(1 << 20, true), ((1 << 20) + 1, false)] {
            std::fs::write(&place, "x".repeat(length)).unwrap();
            assert_eq!(read(&place, 1 << 20, "a filter").is_ok(), is_read);
        }
    }
}
