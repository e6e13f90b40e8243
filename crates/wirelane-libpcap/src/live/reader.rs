//! Reads the packets of a capture for a program, and decides when to wait and return.
//!
//! A callback may call functions with the same handle, read from it, and leave by `longjmp`, by a
//! C++ exception or by ending the thread. So this file borrows nothing while a callback runs, and
//! records each delivery first.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wirelane::{Batch, Error, Frame};

use super::merge::{MergeStep, RxMerger};
use super::options::TimestampPrecision;
use super::selectable::Selectable;
use super::sift::{Sift, Sifts};
use super::watch;
use crate::abi::PacketHeader;
use crate::breaker::Breaker;
use crate::status::Status;

/// The packets of a capture, in order of time, for one thread at a time.
pub(crate) struct PacketReader {
    /// `pthread_self()` of the thread that reads; 0 if none does.
    owner: AtomicUsize,
    /// Incremented by every call that reads, so that a call notices another call within its
    /// callback.
    turn: Cell<u64>,
    desk: UnsafeCell<Desk>,
    sifts: Arc<Sifts>,
}

// SAFETY: the thread that `owner` names uses the rest.
unsafe impl Sync for PacketReader {}

/// The state of the thread that reads.
struct Desk {
    merge: RxMerger,
    status: Arc<Mutex<Status>>,
    /// Made when the program asks for it.
    selectable: Option<Selectable>,
    sifts: Arc<Sifts>,
    sift: Option<Arc<Sift>>,
    /// The version of `sift`.
    version: u64,
    clock: TimeSplitter,
    /// How many frames of the last step were delivered.
    delivered: usize,
    /// How many steps were made.
    steps: u32,
    /// The packet of `pcap_next`, until the next call. It is copied, so that the kernel can reuse
    /// its memory, as in libpcap.
    header: PacketHeader,
    bytes: Vec<u8>,
}

/// A call ends after this number of packets, accepted or not, because packets may arrive faster
/// than the program handles them.
const BUFFER: usize = 16_384;
/// How long a call waits if the program itself waits for the descriptor.
const WAITED: Duration = Duration::from_millis(10);
/// The number of steps between updates of the published counters.
const STEPS: u32 = 64;

/// The parameters of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadRequest {
    /// The most packets to read.
    pub(crate) count: usize,
    /// Never wait.
    pub(crate) nonblock: bool,
    /// Wait until the filter accepts a packet.
    pub(crate) insists: bool,
}

/// Why reading has ended.
#[derive(Debug)]
pub(crate) enum ReadEnd {
    /// This number of packets was read, and no more are available now.
    Read(usize),
    /// `pcap_breakloop` was called.
    Broken,
    /// No more packets follow.
    End,
    /// Reading failed, for this reason.
    Failed(String),
}

/// The next action of a call.
enum ReadStep {
    /// Deliver the first frame, and later ones up to this time. Frames up to the sift's time need
    /// its acceptance.
    Frames(NonNull<[Frame]>, u64, Option<NonNull<Sift>>),
    /// No frames: wait or return.
    Nothing,
    Return(ReadEnd),
}

/// How late a break is noticed if the breaker has no descriptor.
const UNWOKEN: Duration = Duration::from_millis(20);
/// libpcap's text for a closed descriptor.
const CLOSED: &str = "Invalid polling request on packet socket";
/// Only one thread may read.
const ELSEWHERE: &str = "another thread reads packets of this handle";

impl PacketReader {
    /// Reads from `merge`, with times in this precision, and publishes counters in `status`.
    pub(crate) fn new(
        merge: RxMerger,
        precision: TimestampPrecision,
        status: Arc<Mutex<Status>>,
        sifts: Arc<Sifts>,
    ) -> Self {
        let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let desk = Desk {
            merge,
            status,
            selectable: None,
            sifts: Arc::clone(&sifts),
            sift: None,
            version: 0,
            clock: TimeSplitter { precision, second: 0, start: 0 },
            delivered: 0,
            steps: 0,
            header: PacketHeader { time, captured: 0, original: 0 },
            bytes: Vec::new(),
        };
        Self { owner: AtomicUsize::new(0), turn: Cell::new(0), desk: UnsafeCell::new(desk), sifts }
    }

    /// A descriptor that is readable while packets are available. It stays open as long as the
    /// capture.
    ///
    /// # Errors
    /// The process has no descriptor left, the system refuses, or another thread reads.
    pub(crate) fn selectable(&self) -> Result<RawFd, String> {
        let Some(_turn) = self.begin() else { return Err(ELSEWHERE.into()) };
        // SAFETY: this thread owns it, and the reference ends here.
        let desk = unsafe { &mut *self.desk.get() };
        desk.make_selectable().map_err(|error| error.to_string())
    }

    /// Reads packets and passes each to `deliver`.
    #[inline]
    pub(crate) fn read(
        &self,
        request: ReadRequest,
        breaker: &Breaker,
        deliver: impl FnMut(&PacketHeader, &[u8]),
    ) -> ReadEnd {
        let Some(turn) = self.begin() else { return ReadEnd::Failed(ELSEWHERE.into()) };
        let outcome = self.read_all(&turn, request, breaker, deliver);
        // SAFETY: this thread owns it, and the reference ends here.
        unsafe { &mut *self.desk.get() }.finish(outcome)
    }

    /// Reads one packet, and calls `found` with its header and bytes, which are valid until the
    /// next call.
    pub(crate) fn read_one(
        &self,
        request: ReadRequest,
        breaker: &Breaker,
        found: impl FnOnce(&mut PacketHeader, &[u8]),
    ) -> ReadEnd {
        let request = ReadRequest { count: 1, ..request };
        let outcome = self.read(request, breaker, |header, bytes| {
            // SAFETY: `read` borrows nothing of it while it delivers.
            let desk = unsafe { &mut *self.desk.get() };
            desk.header = *header;
            desk.bytes.clear();
            desk.bytes.extend_from_slice(bytes);
        });
        if let ReadEnd::Read(1) = outcome {
            // SAFETY: what is kept changes in this function only, for one thread at a time.
            let desk = unsafe { &mut *self.desk.get() };
            found(&mut desk.header, &desk.bytes);
        }
        outcome
    }

    #[inline]
    fn read_all(
        &self,
        turn: &ReadCall<'_>,
        request: ReadRequest,
        breaker: &Breaker,
        mut deliver: impl FnMut(&PacketHeader, &[u8]),
    ) -> ReadEnd {
        let (mut done, mut passed) = (0, 0);
        let mut has_slept = false;
        loop {
            if passed >= BUFFER && (done > 0 || request.nonblock || !request.insists) {
                return ReadEnd::Read(done);
            }
            // SAFETY: this thread owns it, and the reference ends here.
            let next = unsafe { &mut *self.desk.get() }.next(breaker, done);
            let (frames, until, sift) = match next {
                ReadStep::Frames(frames, until, sift) => (frames, until, sift),
                ReadStep::Return(outcome) => return outcome,
                ReadStep::Nothing => {
                    if done > 0 || passed > 0 && !request.insists || request.nonblock {
                        return ReadEnd::Read(done);
                    }
                    if breaker.take() {
                        return ReadEnd::Broken;
                    }
                    // SAFETY: this thread owns it, and the reference ends with the function.
                    let desk = unsafe { &mut *self.desk.get() };
                    // The program itself waited for the descriptor, but no packet was available.
                    // Return soon, because the program may wait for other descriptors, too.
                    let has_waited = desk.selectable.is_some();
                    if has_waited && has_slept {
                        return ReadEnd::Read(0);
                    }
                    has_slept = true;
                    // If the thread is ended here, the reference ends, too.
                    match desk.sleep(breaker, has_waited.then_some(WAITED)) {
                        Ok(()) => continue,
                        Err(why) => return ReadEnd::Failed(why),
                    }
                }
            };
            // SAFETY: the frames stay until the next step.
            let ahead = Ahead::of(unsafe { frames.as_ref() });
            for at in 0..frames.len() {
                ahead.prefetch(at);
                // SAFETY: the frames stay until the next step, which only the reading thread takes.
                // If it was taken within the callback, the turn has changed.
                let frame = unsafe { frames.cast::<Frame>().add(at).as_ref() };
                if at > 0 && frame.timestamp() > until {
                    break;
                }
                passed += 1;
                // SAFETY: this thread owns it, and the reference ends here.
                let header = unsafe {
                    let desk = &mut *self.desk.get();
                    desk.delivered = at + 1;
                    desk.clock.header(frame)
                };
                // SAFETY: it stays until the next step, as the frames.
                let accepted = sift
                    .map(|sift| unsafe { sift.as_ref() })
                    .is_none_or(|sift| frame.timestamp() > sift.until || (sift.accepts)(frame));
                if !accepted {
                    continue;
                }
                done += 1;
                deliver(&header, frame.data());
                // As in libpcap, a break takes precedence over the number of packets read.
                if breaker.is_raised() && breaker.take() {
                    return ReadEnd::Broken;
                }
                if done == request.count {
                    return ReadEnd::Read(done);
                }
                if self.turn.get() != turn.number || self.sifts.version() != turn.version.get() {
                    turn.version.set(self.sifts.version());
                    break;
                }
            }
        }
    }

    /// Makes this thread the reader. It may be the reader already, within a callback or after
    /// leaving one by `longjmp`. `None` if another thread reads.
    fn begin(&self) -> Option<ReadCall<'_>> {
        // SAFETY: takes nothing and cannot fail. The C library's threads are pointers.
        let me = unsafe { libc::pthread_self() as usize };
        let before = self.owner.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).err();
        if before.is_some_and(|owner| owner != me) {
            return None;
        }
        let number = self.turn.get().wrapping_add(1);
        self.turn.set(number);
        let version = Cell::new(self.sifts.version());
        Some(ReadCall { reader: self, number, version, owner: before.unwrap_or(0) })
    }
}

/// A call that reads.
struct ReadCall<'a> {
    reader: &'a PacketReader,
    number: u64,
    /// The version of the sift in use.
    version: Cell<u64>,
    /// The previous owner.
    owner: usize,
}

impl Drop for ReadCall<'_> {
    fn drop(&mut self) {
        self.reader.owner.store(self.owner, Ordering::Release);
    }
}

impl Desk {
    /// Releases the delivered frames, and returns the next action.
    #[inline]
    fn next(&mut self, breaker: &Breaker, done: usize) -> ReadStep {
        self.leave();
        // Updates the published counters now and then during an endless call.
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS) && self.merge.is_touched() {
            self.show();
        }
        if self.sifts.version() != self.version {
            self.version = self.sifts.version();
            self.sift = self.sifts.current();
        }
        match self.merge.next() {
            MergeStep::Frames(frames, until) => {
                if breaker.is_raised() && breaker.take() {
                    return ReadStep::Return(ReadEnd::Broken);
                }
                let sift = self.sift.as_deref().map(NonNull::from);
                ReadStep::Frames(NonNull::from(frames), until, sift)
            }
            MergeStep::Nothing => {
                self.show();
                ReadStep::Nothing
            }
            MergeStep::End | MergeStep::Failed(_) if done > 0 => {
                ReadStep::Return(ReadEnd::Read(done))
            }
            MergeStep::End => {
                self.show();
                ReadStep::Return(ReadEnd::End)
            }
            MergeStep::Failed(failure) => ReadStep::Return(ReadEnd::Failed(explain(failure))),
        }
    }

    /// Releases the delivered frames.
    #[inline]
    fn leave(&mut self) {
        let delivered = std::mem::take(&mut self.delivered);
        if delivered > 0 {
            self.merge.left(delivered);
        }
    }

    /// Ends a call.
    #[inline]
    fn finish(&mut self, outcome: ReadEnd) -> ReadEnd {
        self.leave();
        if self.merge.is_touched() {
            self.show();
        }
        if let Some(selectable) = &mut self.selectable
            && let Err(error) = selectable.follow(&mut self.merge)
        {
            return ReadEnd::Failed(error.to_string());
        }
        outcome
    }

    /// Publishes the receive counters.
    fn show(&mut self) {
        // The thread that holds it publishes these numbers next time.
        if let Ok(mut status) = self.status.try_lock() {
            self.merge.each_touched(|end| status.received(end));
        }
    }

    fn make_selectable(&mut self) -> wirelane_os::Result<RawFd> {
        let selectable = match &mut self.selectable {
            Some(selectable) => selectable,
            None => self.selectable.insert(Selectable::new()?),
        };
        selectable.follow(&mut self.merge)?;
        Ok(selectable.as_fd().as_raw_fd())
    }

    /// Waits for packets or the breaker, for at most `longest`.
    fn sleep(&mut self, breaker: &Breaker, longest: Option<Duration>) -> Result<(), String> {
        let wakes = breaker.descriptor();
        let mut descriptors: Vec<BorrowedFd<'_>> = wakes.into_iter().collect();
        let mut time = self.merge.pause();
        if time == Some(Duration::ZERO) {
            return Ok(());
        }
        if let Some(selectable) = &mut self.selectable {
            selectable.follow(&mut self.merge).map_err(|error| error.to_string())?;
            descriptors.push(Selectable::as_fd(selectable));
            time = longest;
        } else {
            descriptors.extend(self.merge.descriptors().map(|(_, fd)| fd));
        }
        if wakes.is_none() {
            time = Some(time.map_or(UNWOKEN, |time| time.min(UNWOKEN)));
        }
        let is_first = watch::wait(&descriptors, time).map_err(|error| match error.errno() {
            Some(libc::EBADF) => CLOSED.to_owned(),
            _ => error.to_string(),
        })?;
        if is_first && wakes.is_some() && !breaker.is_raised() {
            breaker.quiet();
        }
        Ok(())
    }
}

/// Predicts the addresses of the packets after a batch, if packets follow each other as the last
/// two do. Prefetching them while the program handles the batch saves about half the cost of a
/// small packet, because another CPU wrote them.
struct Ahead {
    /// The address of the packet that follows the batch's end by the first frame's distance from
    /// its start.
    next: *const u8,
    stride: usize,
}

/// At larger distances, packets are in different rings, or long enough for the hardware prefetcher.
const FARTHEST: usize = 2048;

impl Ahead {
    #[inline]
    fn of(frames: &[Frame]) -> Self {
        let [_, .., before, last] = frames else { return Self { next: ptr::null(), stride: 0 } };
        let start = |frame: &Frame| frame.data().as_ptr();
        let stride = start(last).addr().wrapping_sub(start(before).addr());
        if stride > FARTHEST {
            return Self { next: ptr::null(), stride: 0 };
        }
        // This number of frames of the batch has left.
        let left = Batch::DEFAULT.saturating_sub(frames.len());
        let next = start(last).wrapping_add((left + 1) * stride).wrapping_sub(HEADER);
        Self { next, stride }
    }

    /// Prefetches the packet at this position ahead.
    #[inline]
    fn prefetch(&self, at: usize) {
        #[cfg(target_arch = "x86_64")]
        if self.stride > 0 {
            let place = self.next.wrapping_add(at * self.stride);
            for line in 0..3 {
                // SAFETY: a prefetch reads nothing, whatever the address.
                unsafe {
                    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                    _mm_prefetch::<_MM_HINT_T0>(place.wrapping_add(64 * line).cast());
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}

/// The approximate number of bytes before a packet in the kernel's ring.
const HEADER: usize = 82;

/// libpcap's text.
#[cold]
fn explain(failure: &Error) -> String {
    match failure.cause().starts_with("the interface was removed") {
        true => "The interface disappeared".to_owned(),
        false => failure.to_string(),
    }
}

/// Splits times into seconds and the fraction.
struct TimeSplitter {
    precision: TimestampPrecision,
    /// The second of the last packet, and its start in nanoseconds.
    second: i64,
    start: u64,
}

const SECOND: u64 = 1_000_000_000;

impl TimeSplitter {
    #[inline]
    fn header(&mut self, frame: &Frame) -> PacketHeader {
        let mut rest = frame.timestamp().wrapping_sub(self.start);
        if rest >= SECOND {
            let seconds = frame.timestamp() / SECOND;
            self.start = seconds * SECOND;
            self.second = seconds.cast_signed();
            rest = frame.timestamp() - self.start;
        }
        let fraction = match self.precision {
            TimestampPrecision::Micro => rest as u32 / 1000,
            TimestampPrecision::Nano => rest as u32,
        };
        PacketHeader {
            time: libc::timeval { tv_sec: self.second, tv_usec: fraction.into() },
            captured: u32::try_from(frame.len()).unwrap_or(u32::MAX),
            original: frame.original_len(),
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
