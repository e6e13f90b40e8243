//! Small files of the kernel, and pipes.

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::{Errno, read};
use std::os::fd::AsFd;
use std::path::Path;

/// The text of a small file of the kernel, as in /proc. Such a file reports no size, so `std::fs`
/// would read it in many small pieces.
///
/// # Errors
/// The errors of open(2) and read(2); `EILSEQ` for contents that are no text.
pub fn small(path: impl AsRef<Path>) -> rustix::io::Result<String> {
    small_in(CWD, path)
}

/// As [`small`], of a file in a directory.
///
/// # Errors
/// As there.
pub fn small_in(directory: impl AsFd, path: impl AsRef<Path>) -> rustix::io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(directory, path.as_ref(), flags, Mode::empty())?;
    let mut contents = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match read(&file, &mut buffer) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
            Ok(0) => return String::from_utf8(contents).map_err(|_| Errno::ILSEQ),
            Ok(length) => contents.extend_from_slice(buffer.get(..length).unwrap_or_default()),
        }
    }
}

/// Sets the capacity of a pipe to `bytes`, as far as the system allows it (`pipe-max-size`, see
/// proc(5)).
pub fn enlarge_pipe(file: impl AsFd, bytes: usize) {
    // A refusal leaves the capacity unchanged.
    let _ = rustix::pipe::fcntl_setpipe_size(file, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_are_read_whole() {
        let path = std::env::temp_dir().join(format!("wirelane-os-small-{}", std::process::id()));
        let text = "0123456789".repeat(1000);
        for text in ["", &text] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(small(&path).unwrap(), text);
        }
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(small(&path), Err(Errno::ILSEQ));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(small(&path), Err(Errno::NOENT));
        assert!(small("/proc/self/status").unwrap().contains("PPid:"));
    }

    #[test]
    fn a_pipe_holds_as_much_as_it_is_told_to() {
        let (_reader, writer) = std::io::pipe().unwrap();
        let size = || rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
        enlarge_pipe(&writer, 256 << 10);
        assert_eq!(size(), 256 << 10);
        // More than the system allows any process: no change.
        enlarge_pipe(&writer, usize::MAX >> 33);
        assert_eq!(size(), 256 << 10);
    }
}
