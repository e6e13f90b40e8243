//! The receiving end: packets of the file become frames.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wirelane_os::clock;

use super::control::Switch;
use super::origin::Origins;
use super::{LARGE, MAX_PACKET, Progress};
use crate::capture::CaptureReader;
use crate::error::{Error, Result};
use crate::frame::{Batch, Frame};
use crate::mask::Class;
use crate::pool::Pool;
use crate::port::spec::parse_number;
use crate::port::{Control, Readiness, Receive, Spec};

/// The longest sleep: masks may change meanwhile.
const NAP: Duration = Duration::from_millis(10);
/// Packets that are passed by in one call when none of them is selected.
const PASSED_BY: usize = 4096;

/// How the file is read: its options.
pub(super) struct Replay {
    path: String,
    /// Packets come with the gaps of the file.
    is_paced: bool,
    /// How often the file is read again after the first time.
    again: u64,
}

impl Replay {
    /// Reads the options of a spec.
    ///
    /// # Errors
    /// An unknown option, a value out of range, or standard input to be read twice.
    pub(super) fn new(spec: &Spec) -> Result<Self> {
        let mut options = spec.options();
        let is_paced = options.value("rate", false, "max or original", |text| match text {
            "max" => Some(false),
            "original" => Some(true),
            _ => None,
        })?;
        let times = options
            .value("loop", 1, "a number from 1 on", |text| parse_number(text).filter(|n| *n > 0))?;
        options.finish()?;
        if times > 1 && spec.name == "-" {
            return Err(Error::usage(
                format!("port '{spec}'"),
                "standard input cannot be repeated",
            )
            .help("name a file, or leave loop= out"));
        }
        Ok(Self { path: spec.name.clone(), is_paced, again: times - 1 })
    }
}

/// A packet that the reader stands at and that is not delivered yet.
#[derive(Clone, Copy)]
struct Ahead {
    timestamp: u64,
    queue: u16,
    class: Class,
}

/// The receiving end of a file.
pub(super) struct Source {
    reader: CaptureReader,
    replay: Replay,
    origins: Origins,
    /// Which mask the origins were selected by.
    generation: u64,
    small: Pool,
    large: Option<Pool>,
    /// Most bytes to keep of a packet.
    snaplen: usize,
    ahead: Option<Ahead>,
    /// Timestamp of the first packet, and of the first one since the file was opened last.
    first: Option<u64>,
    first_of_round: Option<u64>,
    /// What is added to the times of the file.
    shift: u64,
    /// Newest timestamp so far.
    newest: u64,
    /// Monotonic clock at the start; `None` before it.
    started: Option<u64>,
    /// The last call found no free frame.
    is_starved: bool,
    is_over: bool,
    failure: Option<Error>,
    switch: Arc<Switch>,
    progress: Arc<Progress>,
}

impl Source {
    pub(super) fn new(
        reader: CaptureReader,
        origins: Origins,
        small: Pool,
        replay: Replay,
        snaplen: u32,
        switch: &Arc<Switch>,
        progress: &Arc<Progress>,
    ) -> Self {
        Self {
            reader,
            replay,
            origins,
            generation: 0,
            small,
            large: None,
            snaplen: snaplen as usize,
            ahead: None,
            first: None,
            first_of_round: None,
            shift: 0,
            newest: 0,
            started: None,
            is_starved: false,
            is_over: false,
            failure: None,
            switch: Arc::clone(switch),
            progress: Arc::clone(progress),
        }
    }

    /// Moves to the next packet that is selected; `None` if there is none, or not yet.
    #[inline]
    fn seek(&mut self, patience: &mut usize) -> Option<Ahead> {
        while self.ahead.is_none() {
            match self.reader.advance() {
                Ok(true) => {}
                Ok(false) => {
                    self.open_again()?;
                    continue;
                }
                Err(error) => {
                    self.fail(error.into());
                    return None;
                }
            }
            let record = self.reader.current();
            let (interface, direction) = (record.interface, record.direction);
            let timestamp = record.timestamp.saturating_add(self.shift);
            self.newest = self.newest.max(timestamp);
            if self.first_of_round.is_none() {
                self.first_of_round = Some(record.timestamp);
                self.first.get_or_insert(timestamp);
            }
            if interface as usize >= self.origins.len() {
                self.learn()?;
            }
            match self.origins.selected(interface, direction) {
                Some((queue, class)) => self.ahead = Some(Ahead { timestamp, queue, class }),
                None => {
                    *patience = patience.checked_sub(1)?;
                }
            }
        }
        self.ahead
    }

    /// Begins the file once more, if it is to be repeated and holds anything.
    #[cold]
    fn open_again(&mut self) -> Option<()> {
        let Some(first) = self.first_of_round.take().filter(|_| self.replay.again > 0) else {
            self.end();
            return None;
        };
        self.replay.again -= 1;
        self.shift = self.newest.saturating_add(1).saturating_sub(first);
        match CaptureReader::open(&self.replay.path) {
            Ok(reader) => self.reader = reader,
            Err(error) => {
                self.fail(error.into());
                return None;
            }
        }
        Some(())
    }

    /// Applies the masks of now, also to a packet that was found under those before.
    #[cold]
    fn select(&mut self) {
        self.origins.select(&self.switch.mask());
        let record = self.reader.current();
        let selected = self.origins.selected(record.interface, record.direction);
        self.ahead = self.ahead.filter(|_| selected.is_some());
    }

    /// Takes note of interfaces that were described between packets.
    #[cold]
    fn learn(&mut self) -> Option<()> {
        if let Err(error) = self.origins.extend(self.reader.interfaces(), self.reader.name()) {
            self.fail(error);
            return None;
        }
        self.origins.select(&self.switch.mask());
        Some(())
    }

    /// Whether the time of a packet has come, when the gaps of the file are kept.
    fn wait(&self, ahead: &Ahead) -> Duration {
        let (Some(started), Some(first)) = (self.started, self.first) else {
            return Duration::ZERO;
        };
        let elapsed = clock::monotonic_ns().saturating_sub(started);
        Duration::from_nanos(ahead.timestamp.saturating_sub(first).saturating_sub(elapsed))
    }

    /// A frame for a packet that exceeds the usual ones; `None` while none is free.
    #[cold]
    fn large_frame(&mut self) -> Option<Frame> {
        let pool = match &mut self.large {
            Some(pool) => pool,
            None => match Pool::new(LARGE) {
                Ok(pool) => {
                    let _ = self.progress.large.set(pool.gauge());
                    self.large.insert(pool)
                }
                Err(error) => {
                    self.fail(error);
                    return None;
                }
            },
        };
        let frame = pool.take_one();
        self.is_starved = frame.is_none();
        frame
    }

    /// Fills the frames from `first` on with packets; returns how many were filled.
    fn fill(&mut self, batch: &mut Batch, first: usize) -> usize {
        let mut patience = PASSED_BY;
        let mut filled = 0;
        while let Some(frame) = batch.get_mut(first + filled) {
            let Some(ahead) = self.seek(&mut patience) else { break };
            if self.replay.is_paced && !self.wait(&ahead).is_zero() {
                break;
            }
            let record = self.reader.current();
            let mut len = record.data.len().min(self.snaplen);
            if len > frame.capacity() {
                let Some(large) = self.large_frame() else { break };
                *frame = large;
            }
            let record = self.reader.current();
            if len > MAX_PACKET {
                len = MAX_PACKET;
                self.progress.cut.add(1);
            }
            let filled_whole = record.data.get(..len).is_some_and(|data| frame.fill(data));
            debug_assert!(filled_whole);
            frame.set_original_len(record.original_len);
            frame.stamp(ahead.timestamp, ahead.queue, ahead.class);
            self.ahead = None;
            filled += 1;
        }
        filled
    }

    /// Publishes how many frames are free.
    fn publish(&mut self) {
        self.small.take(&mut Batch::new(0), 0);
        if let Some(large) = &mut self.large {
            large.take(&mut Batch::new(0), 0);
        }
    }

    fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        self.end();
    }

    fn end(&mut self) {
        self.is_over = true;
        self.ahead = None;
        self.progress.ended.store(true, Ordering::Release);
    }
}

impl Receive for Source {
    #[inline]
    fn receive(&mut self, batch: &mut Batch) -> usize {
        self.is_starved = false;
        if self.started.is_none() {
            self.started = self.switch.started();
        }
        if !self.is_over && self.switch.is_stopped() {
            self.end();
        }
        if self.is_over || self.started.is_none() || batch.room() == 0 {
            self.publish();
            return 0;
        }
        let generation = self.switch.generation();
        if generation != self.generation {
            self.generation = generation;
            self.select();
        }
        // One packet is looked for before frames are taken, so that a silent file costs none.
        let ready = self.seek(&mut { PASSED_BY });
        if ready.is_none_or(|ahead| self.replay.is_paced && !self.wait(&ahead).is_zero()) {
            self.publish();
            return 0;
        }
        let first = batch.len();
        let taken = self.small.take(batch, usize::MAX);
        self.is_starved = taken == 0;
        let filled = self.fill(batch, first);
        for _ in filled..taken {
            batch.pop();
        }
        filled
    }

    fn readiness(&mut self) -> Result<Readiness<'_>> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.is_over {
            return Ok(Readiness::End);
        }
        if self.started.is_none() {
            return Ok(Readiness::After(Duration::from_micros(200)));
        }
        if self.is_starved {
            // The consumer has all frames: it is the one to wait for.
            return Ok(Readiness::After(Duration::from_micros(20)));
        }
        let wait = match &self.ahead {
            Some(ahead) if self.replay.is_paced => self.wait(ahead),
            _ => Duration::ZERO,
        };
        Ok(if wait.is_zero() { Readiness::Now } else { Readiness::After(wait.min(NAP)) })
    }

    fn watermark(&self) -> u64 {
        if self.is_over { u64::MAX } else { self.newest }
    }
}
