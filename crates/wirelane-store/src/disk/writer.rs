//! Writes buffers, several at once, in any order.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fs::File;
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use wirelane_os::{OsError, Result};

use super::buffers::{Buffer, Buffers};
use super::file::ALIGNMENT;
use super::ring::{MAX_DEPTH, Rings, WriteRing};

/// How often a write that could not be begun is tried again.
const ATTEMPTS: u8 = 100;
/// How long to wait before that.
const PAUSE: Duration = Duration::from_millis(1);

/// How a [`DirectWriter`] writes.
#[derive(Debug)]
pub enum Mode {
    /// With io_uring, from memory that the kernel has pinned once.
    Registered,
    /// With io_uring; the memory is pinned at each write, because of this.
    Unregistered(OsError),
    /// One write after the other: because of this, or because it was asked for.
    Blocking(Option<OsError>),
}

/// A finished write.
#[derive(Debug)]
pub struct Done {
    /// What [`DirectWriter::write`] was given.
    pub token: u64,
    /// The buffer, to be used again.
    pub buffer: Buffer,
    /// Whether all of it was written.
    pub result: Result<()>,
}

/// Writes [`Buffer`]s to files, several at once. They finish in any order.
///
/// It belongs to one thread at a time. Dropping it waits for the writes in flight.
pub struct DirectWriter {
    ring: Option<WriteRing>,
    mode: Mode,
    /// The writes in flight, each at the index that the kernel returns with its result.
    flights: Box<[Option<Flight>]>,
    in_flight: usize,
    done: VecDeque<Done>,
}

/// A write that is not finished.
struct Flight {
    file: Arc<File>,
    buffer: Buffer,
    len: usize,
    offset: u64,
    token: u64,
    /// Bytes already written.
    written: usize,
    attempts: u8,
}

impl DirectWriter {
    /// A writer of up to `depth` (1 to 4096) writes at once; those from `buffers` are the fastest.
    /// [`DirectWriter::mode`] says what the system allows.
    #[must_use]
    pub fn new(depth: usize, buffers: &Buffers) -> Self {
        Self::with_rings(depth, buffers, &Rings::default())
    }

    /// As [`DirectWriter::new`], with one of these rings if there is one left.
    #[must_use]
    pub fn with_rings(depth: usize, buffers: &Buffers, rings: &Rings) -> Self {
        let depth = depth.clamp(1, MAX_DEPTH);
        let mut ring = match rings.take(depth).map_or_else(|| WriteRing::new(depth as u32), Ok) {
            Ok(ring) => ring,
            Err(error) => return Self::with(None, Mode::Blocking(Some(error)), 1),
        };
        let mode = match ring.register(buffers) {
            Ok(()) => Mode::Registered,
            Err(error) => Mode::Unregistered(error),
        };
        Self::with(Some(ring), mode, depth)
    }

    /// A writer that waits for each write.
    #[must_use]
    pub fn blocking() -> Self {
        Self::with(None, Mode::Blocking(None), 1)
    }

    fn with(ring: Option<WriteRing>, mode: Mode, depth: usize) -> Self {
        let flights = (0..depth).map(|_| None).collect();
        Self { ring, mode, flights, in_flight: 0, done: VecDeque::with_capacity(depth) }
    }

    /// Keeps this file open, and a lock on it in force, until nothing is being written any more.
    ///
    /// When a process dies, the kernel closes its files at once, but finishes what a ring was
    /// writing some time later (io_ring_exit_work() in io_uring/io_uring.c). What relies on a lock
    /// ending with its holder's writes needs this.
    ///
    /// # Errors
    /// The system refuses. A writer that waits for each write ends with its process, and need not
    /// keep anything.
    pub fn keep_open(&self, file: &File) -> Result<()> {
        self.ring.as_ref().map_or(Ok(()), |ring| ring.keep_open(file))
    }

    /// How it writes, and why not better.
    #[must_use]
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// Writes that have begun and that [`DirectWriter::done`] has not given back.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.in_flight + self.done.len()
    }

    /// Whether another write can begin without waiting for one.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.in_flight < self.flights.len()
    }

    /// Begins to write the first `len` bytes of `buffer` to `file` at `offset`; how that ends,
    /// [`DirectWriter::done`] tells. If as many as the depth are being written, it waits for one.
    /// For a file with direct I/O, `len` and `offset` are multiples of [`ALIGNMENT`].
    pub fn write(&mut self, file: &Arc<File>, buffer: Buffer, len: usize, offset: u64, token: u64) {
        let file = Arc::clone(file);
        let flight = Flight { file, buffer, len, offset, token, written: 0, attempts: 0 };
        if len == 0 || len > flight.buffer.len() {
            let result = if len == 0 { Ok(()) } else { Err(flight.error(libc::EINVAL)) };
            return self.finish(flight, result);
        }
        if self.ring.is_none() {
            let mut flight = flight;
            let result = flight.write_now();
            return self.finish(flight, result);
        }
        while !self.has_room() {
            self.reap(Duration::MAX);
        }
        self.launch(flight);
    }

    /// A finished write. If there is none yet, but something is being written, it waits for that,
    /// at most so long ([`Duration::ZERO`]: not at all; [`Duration::MAX`]: until it is finished).
    pub fn done(&mut self, wait: Duration) -> Option<Done> {
        if self.done.is_empty() && self.in_flight > 0 {
            self.reap(Duration::ZERO);
            let begin = Instant::now();
            let mut left = wait;
            while self.done.is_empty() && self.in_flight > 0 && !left.is_zero() {
                self.reap(left);
                left = wait.saturating_sub(begin.elapsed());
            }
        }
        self.done.pop_front()
    }

    /// Has the kernel begin it.
    fn launch(&mut self, flight: Flight) {
        let mut slots = self.flights.iter_mut().enumerate();
        let Some((number, slot)) = slots.find(|(_, slot)| slot.is_none()) else {
            let result = Err(flight.error(libc::EBUSY));
            return self.finish(flight, result);
        };
        let (range, offset) = ((flight.written, flight.len), flight.position());
        let flight = slot.insert(flight);
        // SAFETY: buffer and file stay in their slot until the kernel has finished (`land`), or for
        // ever (`drop`).
        let pushed = self.ring.as_mut().is_some_and(|ring| unsafe {
            ring.push(&*flight.file, &flight.buffer, range, offset, number as u64)
        });
        if !pushed {
            // The queue has as many places as there are slots.
            if let Some(flight) = slot.take() {
                let result = Err(flight.error(libc::EBUSY));
                self.finish(flight, result);
            }
            return;
        }
        self.in_flight += 1;
        self.enter(Duration::ZERO);
    }

    /// Takes in what the kernel has finished; waits for something, at most so long.
    fn reap(&mut self, wait: Duration) {
        if !self.land() {
            self.enter(wait);
            self.land();
        }
    }

    fn enter(&mut self, wait: Duration) {
        let Some(ring) = &mut self.ring else { return };
        match ring.enter(wait) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            // The kernel has no memory for it (EAGAIN), or no room for what it has finished
            // (EBUSY). What is queued goes with the next call.
            Err(_) if wait.is_zero() => {}
            Err(_) => thread::sleep(PAUSE.min(wait)),
        }
    }

    /// Takes in what the kernel has finished; true if there was something.
    fn land(&mut self) -> bool {
        let mut any = false;
        while let Some((number, answer)) = self.ring.as_mut().and_then(WriteRing::completion) {
            let slot = usize::try_from(number).ok().and_then(|number| self.flights.get_mut(number));
            let Some(mut flight) = slot.and_then(Option::take) else { continue };
            any = true;
            self.in_flight -= 1;
            match flight.advance(answer) {
                WriteProgress::Whole => self.finish(flight, Ok(())),
                WriteProgress::Again => self.launch(flight),
                WriteProgress::Failed(errno) => {
                    let result = Err(flight.error(errno));
                    self.finish(flight, result);
                }
            }
        }
        any
    }

    fn finish(&mut self, flight: Flight, result: Result<()>) {
        self.done.push_back(Done { token: flight.token, buffer: flight.buffer, result });
    }
}

impl Drop for DirectWriter {
    fn drop(&mut self) {
        // A kernel that does not take calls any more will not finish anything either.
        let mut silent = 0;
        while self.in_flight > 0 && silent < ATTEMPTS {
            let before = self.in_flight;
            self.reap(Duration::from_secs(3600));
            silent = if self.in_flight < before { 0 } else { silent + 1 };
        }
        if self.in_flight > 0 {
            // The kernel may still read this memory: it is never given back.
            mem::forget(mem::take(&mut self.flights));
        } else if let Some(ring) = &self.ring {
            ring.let_go();
        }
    }
}

enum WriteProgress {
    Whole,
    Again,
    Failed(i32),
}

impl Flight {
    /// Evaluates the answer of the kernel: the number of bytes written, or a negative errno.
    fn advance(&mut self, answer: i32) -> WriteProgress {
        let count = match usize::try_from(answer) {
            // A disk that takes nothing and says nothing: as write_all() of the standard library.
            Ok(0) => return WriteProgress::Failed(libc::EIO),
            Ok(count) => count,
            Err(_)
                if [libc::EINTR, libc::EAGAIN].contains(&-answer) && self.attempts < ATTEMPTS =>
            {
                self.attempts += 1;
                return WriteProgress::Again;
            }
            Err(_) => return WriteProgress::Failed(answer.wrapping_neg()),
        };
        if self.written + count >= self.len {
            return WriteProgress::Whole;
        }
        // Direct I/O goes on at whole blocks only; some bytes are written twice. Where not even one
        // was written, something ends there, a limit on the size of files for example: the next
        // attempt says what.
        let whole = count - count % ALIGNMENT;
        self.written += if whole == 0 { count } else { whole };
        WriteProgress::Again
    }

    fn write_now(&mut self) -> Result<()> {
        loop {
            let bytes = self.buffer.get(self.written..self.len).unwrap_or_default();
            let answer = match rustix::io::pwrite(&*self.file, bytes, self.position()) {
                Ok(count) => i32::try_from(count).unwrap_or(i32::MAX),
                Err(errno) => -errno.raw_os_error(),
            };
            if answer == -Errno::AGAIN.raw_os_error() {
                thread::sleep(PAUSE);
            }
            match self.advance(answer) {
                WriteProgress::Whole => return Ok(()),
                WriteProgress::Again => {}
                WriteProgress::Failed(errno) => return Err(self.error(errno)),
            }
        }
    }

    /// Where the rest goes in the file.
    fn position(&self) -> u64 {
        self.offset.saturating_add(self.written as u64)
    }

    fn error(&self, errno: i32) -> OsError {
        let object = format!("{} bytes at {}", self.len - self.written, self.position());
        OsError::from_errno("write", object, errno)
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
