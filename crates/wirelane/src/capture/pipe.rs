//! Opening what is read: a file as it is; a pipe, or what else may be silent for long, so that nobody waits for more
//! with packets in hand, and that waiting for it ends when the port is stopped.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

use crate::capture::{CaptureError, CaptureReader};

/// Says that nobody wants to read any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop {
    state: Arc<AtomicU8>,
    /// [`OpenOptions::interrupt`](crate::port::OpenOptions::interrupt): of consequence until the port is open.
    interrupt: Option<Arc<AtomicBool>>,
}

const OPENING: u8 = 0;
const OPEN: u8 = 1;
const STOPPED: u8 = 2;

impl Stop {
    pub(super) fn new(interrupt: Option<&Arc<AtomicBool>>) -> Self {
        Self { state: Arc::default(), interrupt: interrupt.cloned() }
    }

    /// The port is open: from now on only [`Stop::ask`] stops it.
    pub(super) fn opened(&self) {
        self.state.store(OPEN, Ordering::Relaxed);
    }

    /// The port is stopped.
    pub(super) fn ask(&self) {
        self.state.store(STOPPED, Ordering::Relaxed);
    }

    /// Whether the port was stopped.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == STOPPED
    }

    fn ends_waiting(&self) -> bool {
        let is_set = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        match self.state.load(Ordering::Relaxed) {
            OPENING => self.interrupt.as_ref().is_some_and(is_set),
            state => state == STOPPED,
        }
    }
}

/// What is read.
pub(super) struct Input {
    pub(super) reader: CaptureReader,
    /// Becomes readable when there is more, of what may be silent: its reader then says that it would block.
    pub(super) pipe: Option<Arc<File>>,
}

/// Opens the capture file at `path`; `-` is standard input.
///
/// # Errors
/// As [`CaptureReader::open`]; `stop` was set before it said what it is.
pub(super) fn open(path: &str, stop: &Stop) -> Result<Input, CaptureError> {
    if path == "-" {
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        return read("standard input", file, stop);
    }
    let is_regular = std::fs::metadata(path).is_ok_and(|file| file.is_file());
    if is_regular {
        return Ok(Input { reader: CaptureReader::open(path)?, pipe: None });
    }
    // A FIFO that nobody writes to would not even open.
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    read(path, OpenOptions::new().read(true).custom_flags(nonblocking).open(path), stop)
}

fn read(name: &str, file: io::Result<File>, stop: &Stop) -> Result<Input, CaptureError> {
    let failed = |source| CaptureError::Open { name: name.to_owned(), action: "open", source };
    let file = Arc::new(file.map_err(failed)?);
    let waits = Arc::new(AtomicBool::new(true));
    let pipe = Pipe { file: Arc::clone(&file), stop: stop.clone(), waits: Arc::clone(&waits) };
    let opened = CaptureReader::from_reader(pipe, name);
    let reader = opened.map_err(|error| match error {
        // Not that anything is wrong with it.
        CaptureError::Read { source, .. } if stop.ends_waiting() => failed(source),
        error => error,
    })?;
    // A decompressor is no place to stop in: it takes its blocks whole.
    let is_plain = reader.compression().is_none();
    waits.store(!is_plain, Ordering::Relaxed);
    Ok(Input { reader, pipe: is_plain.then_some(file) })
}

/// How long a stop goes unnoticed while nothing comes, at most.
const NAP: Duration = Duration::from_millis(20);

/// Bytes that may be long in coming.
struct Pipe {
    file: Arc<File>,
    stop: Stop,
    /// Nothing is there yet: wait for it.
    waits: Arc<AtomicBool>,
}

impl Read for Pipe {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.ends_waiting() {
                return Err(io::Error::other("stopped while it was silent"));
            }
            let waits = self.waits.load(Ordering::Relaxed);
            let nap = Timespec::try_from(if waits { NAP } else { Duration::ZERO }).ok();
            let mut descriptors = [PollFd::new(&*self.file, PollFlags::IN)];
            match poll(&mut descriptors, nap.as_ref()) {
                Ok(0) if !waits => return Err(io::ErrorKind::WouldBlock.into()),
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                // What is wrong with it, the read will say.
                Ok(_) | Err(_) => {}
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
    use std::io::Write;

    use super::*;

    #[test]
    fn waiting_ends_with_what_comes_first() {
        let (from, mut to) = io::pipe().unwrap();
        let stop = Stop::default();
        let waits = Arc::new(AtomicBool::new(true));
        let file = Arc::new(File::from(std::os::fd::OwnedFd::from(from)));
        let mut pipe = Pipe { file, stop: stop.clone(), waits: Arc::clone(&waits) };
        let (mut bytes, mut rest) = ([0; 8], Vec::new());
        to.write_all(b"bytes").unwrap();
        assert_eq!(pipe.read(&mut bytes).unwrap(), 5);
        // Nothing more, and nobody waits for it.
        waits.store(false, Ordering::Relaxed);
        assert_eq!(pipe.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        to.write_all(b"bytes").unwrap();
        assert_eq!(pipe.read(&mut bytes).unwrap(), 5);
        waits.store(true, Ordering::Relaxed);
        // Nothing more, until the end.
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| pipe.read_to_end(&mut rest).unwrap());
            std::thread::sleep(2 * NAP);
            to.write_all(b"more").unwrap();
            drop(to);
            assert_eq!(reader.join().unwrap(), 4);
        });
        stop.ask();
        assert!(pipe.read(&mut bytes).unwrap_err().to_string().contains("stopped"));
        let interrupt = Arc::new(AtomicBool::new(true));
        assert!(
            Stop::new(Some(&interrupt)).ends_waiting() && !Stop::new(Some(&interrupt)).is_asked()
        );
    }
}
