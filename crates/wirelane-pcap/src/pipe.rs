//! Pipes and other files that may be silent for a long time, or whose reader may stall. Both kinds
//! of waiting can be cancelled, and a reader does not wait while it has packets.
//!
//! A write into a pipe takes one page at a time behind `poll`, or the capacity of an empty pipe.
//! O_NONBLOCK would affect every process that shares the file description. Each write has only
//! whole blocks, so the reader receives the packets that the summary counts.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::cancel::{Cancel, CancelSource};
use crate::error::CaptureError;
use crate::identity::FileId;
use crate::reader::CaptureReader;
use crate::system::{self, wait_to_read, wait_to_write};

/// Bytes that a ready pipe accepts whole and without blocking (`PIPE_BUF`, see pipe(7)).
const PAGE: usize = 4096;

/// An opened capture file or pipe.
pub struct Input {
    /// Reads it.
    pub reader: CaptureReader,
    /// For sources that may be silent: becomes readable when data arrives. Before that, the reader
    /// would block.
    pub pipe: Option<Arc<File>>,
}

/// Opens the capture file at `path`; `-` is standard input.
///
/// # Errors
/// As [`CaptureReader::open`]; or `cancel` was set before the header arrived.
pub fn open(path: &Path, cancel: impl Into<Cancel>) -> Result<Input, CaptureError> {
    let (reader, waits, file) = begin(path, cancel.into())?;
    waits.store(file.is_none(), Ordering::Relaxed);
    Ok(Input { reader, pipe: file })
}

/// As [`open`], but waits for whole packets. Reading fails once `cancel` is set.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_waiting(path: &Path, cancel: &Cancel) -> Result<CaptureReader, CaptureError> {
    Ok(begin(path, cancel.clone())?.0)
}

/// The source, whether it is waiting for more, and the descriptor to poll.
type Beginning = (CaptureReader, Arc<AtomicBool>, Option<Arc<File>>);

fn begin(path: &Path, cancel: Cancel) -> Result<Beginning, CaptureError> {
    let waits = Arc::new(AtomicBool::new(true));
    let (name, opened) = if path.as_os_str() == "-" {
        ("standard input".into(), system::standard_input())
    } else if std::fs::metadata(path).is_ok_and(|file| file.is_file()) {
        return Ok((CaptureReader::open(path)?, waits, None));
    } else {
        // Opening a FIFO without a writer would block.
        let mut options = OpenOptions::new();
        system::set_nonblocking(options.read(true));
        (path.display().to_string(), options.open(path))
    };
    let failed = |source| CaptureError::Open { name: name.clone(), action: "open", source };
    let file = Arc::new(opened.map_err(failed)?);
    let pipe =
        PipeSource { file: Arc::clone(&file), cancel: cancel.clone(), waits: Arc::clone(&waits) };
    let reader = CaptureReader::from_reader(pipe, &name).map_err(|error| match error {
        // The input itself has no error.
        CaptureError::Read { source, .. } if cancel.ends_waiting() => failed(source),
        error => error,
    })?;
    Ok((reader.of_file(FileId::of(&file)), waits, Some(file)))
}

/// Writes all of `data` to a file that may have a reader, or returns the number of bytes written.
/// It works on blocking and non-blocking descriptors and does not change their flags.
///
/// `whole(data, limit)` returns the length of the whole blocks within the limit. The reader always
/// receives whole blocks, except for blocks longer than a page: a pipe takes up to a page
/// atomically.
///
/// # Errors
/// Errors of write(2); `TimedOut` when the reader stalls for longer than `cancel` allows.
pub fn write(
    mut file: &File,
    mut data: &[u8],
    cancel: &impl CancelSource,
    whole: impl Fn(&[u8], usize) -> usize,
) -> Result<(), (usize, io::Error)> {
    let total = data.len();
    let mut standing_since = None;
    // Bytes left of the blocks that are being written.
    let mut run = 0;
    while !data.is_empty() {
        let fail = |error: io::Error| Err((total - data.len(), error));
        let Some(has_room) = wait_to_write(file, Cancel::NAP) else { continue };
        let mut is_full = !has_room;
        if !is_full {
            let room = system::empty_pipe(file).unwrap_or(PAGE).max(PAGE);
            if run == 0 {
                // The next blocks that fit, or one block that does not fit.
                let limits = (0..).map(|pages| room + pages * PAGE);
                let limits = limits.take_while(|limit| *limit < data.len() + PAGE);
                run = limits
                    .map(|limit| whole(data, limit))
                    .find(|len| *len > 0)
                    .unwrap_or(data.len());
            }
            match file.write(data.get(..run.min(room)).unwrap_or(data)) {
                Ok(0) => return fail(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    run = run.saturating_sub(count);
                    (data, standing_since) = (data.get(count..).unwrap_or_default(), None);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Other processes write to it as well.
                    thread::sleep(Duration::from_millis(1));
                    is_full = true;
                }
                Err(error) => return fail(error),
            }
        }
        if is_full && cancel.gives_up(standing_since.get_or_insert_with(Instant::now).elapsed()) {
            let cause = "the reader takes nothing, and the command is ending";
            return fail(io::Error::new(io::ErrorKind::TimedOut, cause));
        }
    }
    Ok(())
}

/// Whether [`write()`] can write this number of bytes to `file` without waiting for a reader.
#[must_use]
pub fn takes_at_once(file: &File, bytes: usize) -> bool {
    bytes <= PAGE && wait_to_write(file, Duration::ZERO) == Some(true)
}

/// A source that may be silent for a long time.
struct PipeSource {
    file: Arc<File>,
    cancel: Cancel,
    /// Wait while the source is empty.
    waits: Arc<AtomicBool>,
}

impl Read for PipeSource {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.cancel.ends_waiting() {
                return Err(io::Error::other("stopped while it was silent"));
            }
            let waits = self.waits.load(Ordering::Relaxed);
            let longest = if waits { Cancel::NAP } else { Duration::ZERO };
            match wait_to_read(&self.file, longest) {
                Some(false) if !waits => return Err(io::ErrorKind::WouldBlock.into()),
                Some(false) | None => continue,
                Some(true) => {}
            }
            match (&*self.file).read(bytes) {
                Err(error) if waits && error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends everything at once.
    #[derive(Clone, Debug, Default)]
    struct Switch(Arc<AtomicBool>);

    impl CancelSource for Switch {
        fn is_asked(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        fn ends_waiting(&self) -> bool {
            self.is_asked()
        }

        fn gives_up(&self, _stalled: Duration) -> bool {
            self.is_asked()
        }
    }

    #[test]
    fn waiting_ends_with_what_comes_first() {
        let (from, mut to) = io::pipe().unwrap();
        let halt = Switch::default();
        let waits = Arc::new(AtomicBool::new(true));
        let file = Arc::new(File::from(std::os::fd::OwnedFd::from(from)));
        let mut pipe =
            PipeSource { file, cancel: Cancel::new(halt.clone()), waits: Arc::clone(&waits) };
        let (mut bytes, mut rest) = ([0; 8], Vec::new());
        to.write_all(b"bytes").unwrap();
        assert_eq!(pipe.read(&mut bytes).unwrap(), 5);
        // The pipe is empty, and reads must not wait.
        waits.store(false, Ordering::Relaxed);
        assert_eq!(pipe.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        to.write_all(b"bytes").unwrap();
        assert_eq!(pipe.read(&mut bytes).unwrap(), 5);
        waits.store(true, Ordering::Relaxed);
        // The pipe is empty, until the end.
        thread::scope(|scope| {
            let reader = scope.spawn(|| pipe.read_to_end(&mut rest).unwrap());
            thread::sleep(2 * Cancel::NAP);
            to.write_all(b"more").unwrap();
            drop(to);
            assert_eq!(reader.join().unwrap(), 4);
        });
        halt.0.store(true, Ordering::Relaxed);
        assert!(pipe.read(&mut bytes).unwrap_err().to_string().contains("stopped"));
    }

    #[test]
    fn writing_ends_for_a_reader_that_takes_nothing() {
        let (mut from, to) = io::pipe().unwrap();
        let to = File::from(std::os::fd::OwnedFd::from(to));
        let halt = Switch::default();
        let data: Vec<u8> = (0..1_000_000_u32).map(|i| (i % 251) as u8).collect();
        // The writer waits until it is cancelled; a cancelled writer does not wait.
        let written = thread::scope(|scope| {
            let writer =
                scope.spawn(|| write(&to, &data, &halt, |data, limit| data.len().min(limit)));
            thread::sleep(5 * Cancel::NAP);
            assert!(!writer.is_finished());
            halt.0.store(true, Ordering::Relaxed);
            let (written, error) = writer.join().unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            written
        });
        drop(to);
        let mut read = Vec::new();
        from.read_to_end(&mut read).unwrap();
        assert!(written > 0 && read == data[..written]);
    }
}
