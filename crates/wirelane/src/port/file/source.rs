//! The receiving end: packets of the file become frames.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wirelane_os::clock;

use super::control::Switch;
use super::origin::Origins;
use super::{LARGE, Progress};
use crate::capture::{CaptureError, CaptureReader};
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
    /// The reader stands at a packet that is neither delivered nor passed by.
    is_at_packet: bool,
    /// Timestamp of the first packet, and of the first one since the file was opened last, both
    /// as they are in the file.
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
            is_at_packet: false,
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

    /// Moves to the next packet that is selected, unless the reader stands at one; its queue and
    /// class. `None` if there is none, or not yet.
    #[inline(always)]
    fn seek(&mut self, patience: &mut usize) -> Option<(u16, Class)> {
        loop {
            if !self.is_at_packet {
                self.step()?;
            }
            let record = self.reader.current();
            let selected = self.origins.selected(record.interface, record.direction);
            if selected.is_some() {
                return selected;
            }
            self.is_at_packet = false;
            *patience = patience.checked_sub(1)?;
        }
    }

    /// Moves to the next packet; `None` at the end.
    #[inline(always)]
    fn step(&mut self) -> Option<()> {
        loop {
            match self.reader.advance() {
                Ok(true) => break,
                ended => self.turn(ended.err())?,
            }
        }
        let record = self.reader.current();
        self.newest = self.newest.max(record.timestamp.saturating_add(self.shift));
        if self.first_of_round.is_none() || record.interface as usize >= self.origins.len() {
            self.learn()?;
        }
        self.is_at_packet = true;
        Some(())
    }

    /// Begins the file once more, if it is whole, is to be repeated and holds anything.
    #[cold]
    fn turn(&mut self, damage: Option<CaptureError>) -> Option<()> {
        let first = self.first_of_round.take().filter(|_| self.replay.again > 0);
        let reader = match (damage, first) {
            (Some(damage), _) => Err(damage),
            (None, Some(_)) => CaptureReader::open(&self.replay.path),
            (None, None) => {
                self.end();
                return None;
            }
        };
        match reader {
            Ok(reader) => self.reader = reader,
            Err(error) => {
                self.fail(error.into());
                return None;
            }
        }
        self.replay.again -= 1;
        self.shift = self.newest.saturating_add(1).saturating_sub(first.unwrap_or(0));
        Some(())
    }

    /// Takes note of the first time, and of interfaces that were described between packets.
    #[cold]
    fn learn(&mut self) -> Option<()> {
        let time = self.reader.current().timestamp;
        self.first_of_round.get_or_insert(time);
        self.first.get_or_insert(time);
        if let Err(error) = self.origins.extend(self.reader.interfaces(), self.reader.name()) {
            self.fail(error);
            return None;
        }
        self.origins.select(&self.switch.mask());
        Some(())
    }

    /// How long the packet has to wait when the gaps of the file are kept.
    fn wait(&self) -> Duration {
        let (true, true, Some(started), Some(first)) =
            (self.replay.is_paced, self.is_at_packet, self.started, self.first)
        else {
            return Duration::ZERO;
        };
        let elapsed = clock::monotonic_ns().saturating_sub(started);
        let due = self.reader.current().timestamp.saturating_add(self.shift).saturating_sub(first);
        Duration::from_nanos(due.saturating_sub(elapsed))
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
            let Some((queue, class)) = self.seek(&mut patience) else { break };
            if self.replay.is_paced && !self.wait().is_zero() {
                break;
            }
            if self.reader.current().data.len().min(self.snaplen) > frame.capacity() {
                let Some(large) = self.large_frame() else { break };
                *frame = large;
            }
            let record = self.reader.current();
            let len = record.data.len().min(self.snaplen).min(frame.capacity());
            if len < record.data.len().min(self.snaplen) {
                self.progress.cut.add(1);
            }
            let is_filled = frame.fill(record.data.get(..len).unwrap_or_default());
            debug_assert!(is_filled);
            frame.set_original_len(record.original_len);
            frame.stamp(record.timestamp.saturating_add(self.shift), queue, class);
            self.is_at_packet = false;
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
        self.is_at_packet = false;
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
            self.origins.select(&self.switch.mask());
        }
        // One packet is looked for before frames are taken, so that a silent file costs none.
        if self.seek(&mut { PASSED_BY }).is_none() || !self.wait().is_zero() {
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
        let wait = self.wait();
        Ok(if wait.is_zero() { Readiness::Now } else { Readiness::After(wait.min(NAP)) })
    }

    fn watermark(&self) -> u64 {
        if self.is_over { u64::MAX } else { self.newest }
    }
}
