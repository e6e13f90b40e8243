//! Flows as text, into a file or on standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wirelane::halt::Halt;
use wirelane::pcap::Access;
use wirelane::{Error, Result, clock};
use wirelane_flow::{Flow, Sink, Text, TextFormat};

/// Bytes that are written together.
const CHUNK: usize = 64 << 10;
/// What a pipe takes at once, if it takes anything (PIPE_BUF).
const PIPE: usize = 4096;
/// How often a reader that takes nothing is asked again, in ns.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Writes flows as text.
pub(super) struct TextSink {
    text: Text,
    buffer: Vec<u8>,
    file: File,
    name: String,
    /// Of standard output, whose reader may be slow: ends waiting for it.
    halt: Option<Halt>,
}

impl TextSink {
    /// Writes to a file, which is made anew.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn create(path: &Path, format: TextFormat, access: Access) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |error| Error::io(name.clone(), "create", error);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(Access::OWNER);
        let file = options.open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_file() && access.is_told() {
            access.apply(&file).map_err(failed)?;
        }
        Ok(Self { text: Text::new(format), buffer: Vec::new(), file, name, halt: None })
    }

    /// Writes to standard output, as long as its reader takes it or `halt` allows to wait.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn stdout(format: TextFormat, halt: &Halt) -> Result<Self> {
        let name = "standard output".to_owned();
        let file = io::stdout().as_fd().try_clone_to_owned();
        let file = File::from(file.map_err(|error| Error::io(name.clone(), "open", error))?);
        let halt = Some(halt.clone());
        Ok(Self { text: Text::new(format), buffer: Vec::new(), file, name, halt })
    }

    fn write(&mut self) -> Result<()> {
        let Self { buffer, file, name, halt, .. } = self;
        let outcome = match halt {
            None => file.write_all(buffer),
            Some(halt) => write_waiting(file, buffer, halt),
        };
        buffer.clear();
        outcome.map_err(|error| Error::io(name.clone(), "write", error))
    }
}

impl Sink for TextSink {
    fn add(&mut self, flow: &Flow) -> Result<()> {
        self.text.push(flow, &mut self.buffer);
        if self.buffer.len() >= CHUNK { self.write() } else { Ok(()) }
    }

    fn tick(&mut self) -> Result<()> {
        if self.buffer.is_empty() { Ok(()) } else { self.write() }
    }

    fn needs_ticks(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn finish(&mut self) -> Result<()> {
        self.text.head(&mut self.buffer);
        self.write()
    }
}

/// Writes all of it, unless nobody reads and the end is asked for.
fn write_waiting(mut file: &File, mut bytes: &[u8], halt: &Halt) -> io::Result<()> {
    let mut since = clock::monotonic_ns();
    while !bytes.is_empty() {
        let mut descriptors = [PollFd::new(&file, PollFlags::OUT)];
        if poll(&mut descriptors, Some(&NAP)).is_ok_and(|ready| ready == 0) {
            if halt.gives_up(since) {
                return Err(io::Error::other("its reader takes nothing"));
            }
            continue;
        }
        let some = bytes.get(..PIPE).unwrap_or(bytes);
        match file.write(some) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        since = clock::monotonic_ns();
    }
    Ok(())
}
