//! Reads packets of a capture for a program: how many, when to wait, and what ends it.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wirelane::{Error, Frame};
use wirelane_os::watch;

use super::merge::{Merge, Step};
use super::options::Precision;
use super::selectable::Selectable;
use super::sift::{Sift, Sifts};
use crate::abi::PacketHeader;
use crate::breaker::Breaker;
use crate::status::Status;

/// The packets of a capture, in order of time.
pub(crate) struct Reader {
    merge: Merge,
    status: Arc<Mutex<Status>>,
    /// Made when the program asks for it.
    selectable: Option<Selectable>,
    sifts: Arc<Sifts>,
    sift: Option<Arc<Sift>>,
    /// Of `sift`.
    version: u64,
    clock: Clock,
    /// The packet of `pcap_next`, until the next call.
    packet: OnePacket,
}

/// A packet that was copied, so that its memory is the kernel's again, as in libpcap.
pub(crate) struct OnePacket {
    header: PacketHeader,
    bytes: Vec<u8>,
}

/// What a program asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// At most so many packets.
    pub(crate) count: usize,
    /// Never wait.
    pub(crate) nonblock: bool,
    /// Wait until there is a packet that the program is to see.
    pub(crate) insists: bool,
}

/// Why reading has ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// So many packets were read, and no more may be now.
    Read(usize),
    /// `pcap_breakloop` was called.
    Broken,
    /// Nothing will come any more.
    End,
    /// Nothing will come any more, for this reason.
    Failed(String),
}

/// Without a descriptor of the breaker: how late it may be noticed.
const UNWOKEN: Duration = Duration::from_millis(20);

impl Reader {
    /// Reads from `merge`, with times of this precision; `status` shows others what was received.
    pub(crate) fn new(merge: Merge, precision: Precision, status: Arc<Mutex<Status>>) -> Self {
        Self {
            merge,
            status,
            selectable: None,
            sifts: Arc::default(),
            sift: None,
            version: 0,
            clock: Clock { precision, second: 0, start: 0 },
            packet: OnePacket::new(),
        }
    }

    /// Where to put a filter for packets that were let in before.
    pub(crate) fn sifts(&self) -> &Arc<Sifts> {
        &self.sifts
    }

    /// Shows others what was received.
    fn show(&mut self) {
        // Whoever has it shows what there is at the next look.
        if let Ok(mut status) = self.status.try_lock() {
            self.merge.each_touched(|end| status.received(end));
        }
    }

    /// A descriptor that is readable while packets may be read. The program has it as long as the
    /// capture.
    ///
    /// # Errors
    /// The process has no descriptor left, or the system refuses.
    pub(crate) fn selectable(&mut self) -> wirelane_os::Result<RawFd> {
        let selectable = match &mut self.selectable {
            Some(selectable) => selectable,
            None => self.selectable.insert(Selectable::new()?),
        };
        selectable.follow(&mut self.merge)?;
        Ok(selectable.as_fd().as_raw_fd())
    }

    /// Reads packets and passes each to `deliver`, which may call functions of the same handle.
    #[inline]
    pub(crate) fn read(
        &mut self,
        request: Request,
        breaker: &Breaker,
        mut deliver: impl FnMut(&PacketHeader, &[u8]),
    ) -> Outcome {
        let outcome = self.read_all(request, breaker, &mut deliver);
        if let Some(selectable) = &mut self.selectable
            && let Err(error) = selectable.follow(&mut self.merge)
        {
            return Outcome::Failed(error.to_string());
        }
        outcome
    }

    /// Reads one packet, which stays where it is until the next call; see [`Reader::packet`].
    pub(crate) fn read_one(&mut self, request: Request, breaker: &Breaker) -> Outcome {
        let mut packet = std::mem::replace(&mut self.packet, OnePacket::new());
        let request = Request { count: 1, ..request };
        let outcome = self.read(request, breaker, |header, bytes| packet.keep(header, bytes));
        self.packet = packet;
        outcome
    }

    /// The packet of [`Reader::read_one`], for the program.
    pub(crate) fn packet(&mut self) -> (&mut PacketHeader, &[u8]) {
        (&mut self.packet.header, &self.packet.bytes)
    }

    #[inline]
    fn read_all(
        &mut self,
        request: Request,
        breaker: &Breaker,
        deliver: &mut impl FnMut(&PacketHeader, &[u8]),
    ) -> Outcome {
        let (mut done, mut passed) = (0, 0);
        loop {
            match self.merge.next() {
                Step::Frames(frames, until) => {
                    if breaker.is_raised() && breaker.take() {
                        return Outcome::Broken;
                    }
                    if self.sifts.version() != self.version {
                        self.version = self.sifts.version();
                        self.sift = self.sifts.current();
                    }
                    let mut taken = 0;
                    for frame in frames {
                        if taken > 0 && frame.timestamp() > until {
                            break;
                        }
                        taken += 1;
                        if let Some(sift) = &self.sift
                            && frame.timestamp() <= sift.until
                            && !(sift.accepts)(frame)
                        {
                            continue;
                        }
                        done += 1;
                        deliver(&self.clock.header(frame), frame.data());
                        if done == request.count
                            || breaker.is_raised()
                            || self.sifts.version() != self.version
                        {
                            break;
                        }
                    }
                    passed += taken;
                    self.merge.left(taken);
                    // As libpcap: it says that it was broken, whatever it has read.
                    if breaker.is_raised() && breaker.take() {
                        return Outcome::Broken;
                    }
                    if done == request.count {
                        return Outcome::Read(done);
                    }
                }
                Step::Nothing => {
                    self.show();
                    let may_return = passed > 0 && !request.insists;
                    if done > 0 || may_return || request.nonblock {
                        return Outcome::Read(done);
                    }
                    if breaker.take() {
                        return Outcome::Broken;
                    }
                    if let Err(error) = self.sleep(breaker) {
                        return Outcome::Failed(error.to_string());
                    }
                }
                Step::End | Step::Failed(_) if done > 0 => return Outcome::Read(done),
                Step::End => {
                    self.show();
                    return Outcome::End;
                }
                Step::Failed(failure) => return Outcome::Failed(explain(failure)),
            }
        }
    }

    /// Waits for packets or the breaker.
    fn sleep(&mut self, breaker: &Breaker) -> wirelane_os::Result<()> {
        let pause = self.merge.pause();
        if pause == Some(Duration::ZERO) {
            return Ok(());
        }
        let wakes = breaker.descriptor();
        let time = match wakes {
            Some(_) => pause,
            None => Some(pause.map_or(UNWOKEN, |time| time.min(UNWOKEN))),
        };
        let rings = self.merge.descriptors().map(|(_, fd)| fd);
        let descriptors: Vec<_> = wakes.into_iter().chain(rings).collect();
        let is_first = watch::wait(&descriptors, time)?;
        if is_first && wakes.is_some() && !breaker.is_raised() {
            breaker.quiet();
        }
        Ok(())
    }
}

impl OnePacket {
    fn new() -> Self {
        let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        Self { header: PacketHeader { time, captured: 0, original: 0 }, bytes: Vec::new() }
    }

    /// Copies a packet.
    fn keep(&mut self, header: &PacketHeader, bytes: &[u8]) {
        self.header = *header;
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }
}

/// What libpcap says.
#[cold]
fn explain(failure: &Error) -> String {
    match failure.cause().starts_with("the interface was removed") {
        true => "The interface disappeared".to_owned(),
        false => failure.to_string(),
    }
}

/// Divides times into seconds and the rest.
struct Clock {
    precision: Precision,
    /// The second of the last packet, and its start in nanoseconds.
    second: i64,
    start: u64,
}

const SECOND: u64 = 1_000_000_000;

impl Clock {
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
            Precision::Micro => rest as u32 / 1000,
            Precision::Nano => rest as u32,
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
