//! Position of a file reader: selects packets by the masks, and repeats the file on request.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use wirelane_os::clock;

use super::control::FileSwitch;
use super::origin::Origins;
use super::progress::FileProgress;
use crate::error::{Error, Result};
use crate::mask::Class;
use crate::pcap::pcapng::{Step, options};
use crate::pcap::pipe::{self, Input};
use crate::pcap::{CaptureError, CaptureReader, Losses, OddTimes, Section};
use crate::port::number::parse_number;
use crate::port::{Control, FileMetadata, Spec};
use crate::sync::lock;

/// How to read the file: its options.
pub(super) struct ReplayOptions {
    path: PathBuf,
    /// Packets are delivered with the gaps of the file.
    is_paced: bool,
    /// How many times the file is repeated.
    again: u64,
    /// Most bytes kept of a packet.
    snaplen: u32,
}

impl ReplayOptions {
    /// Reads the options of a spec.
    ///
    /// # Errors
    /// An unknown option, a value out of range, or standard input with a repetition.
    pub(super) fn new(spec: &Spec, snaplen: u32) -> Result<Self> {
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
            .help("name a file, or remove loop="));
        }
        Ok(Self { path: spec.name.clone().into(), is_paced, again: times - 1, snaplen })
    }
}

/// Metadata of a selected packet.
#[derive(Clone, Copy)]
pub(super) struct Selected {
    pub(super) timestamp: u64,
    pub(super) queue: u16,
    pub(super) class: Class,
    /// The packet has an attachment.
    pub(super) says_more: bool,
}

/// A position in a file.
pub(super) struct FileCursor {
    reader: CaptureReader,
    /// The descriptor to wait for, if the input may pause.
    pipe: Option<Arc<File>>,
    /// The input has paused.
    is_dry: bool,
    replay: ReplayOptions,
    origins: Origins,
    /// Receives names, secrets and other blocks.
    metadata: Arc<FileMetadata>,
    /// Its queues are full.
    is_full: bool,
    progress: Arc<FileProgress>,
    /// The reader is at a packet that is neither delivered nor skipped.
    is_at_packet: bool,
    /// Number of known interfaces; 0 when the file was just opened.
    known: usize,
    /// The generation of the mask that selected the origins.
    generation: u64,
    /// Timestamp of the first packet, and of the first one in this round, both from the file.
    first: Option<u64>,
    first_of_round: Option<u64>,
    /// Added to the file's times, in nanoseconds.
    shift: u64,
    /// Packets whose timestamps were changed: in earlier rounds, and as last reported to the port.
    odd_times: OddTimes,
    told_times: OddTimes,
    /// Newest timestamp so far.
    newest: u64,
    /// Monotonic clock at the start; `None` before it.
    started: Option<u64>,
    is_over: bool,
    failure: Option<Error>,
    switch: Arc<FileSwitch>,
}

impl FileCursor {
    /// A cursor at the start of the file.
    pub(super) fn new(
        input: Input,
        origins: Origins,
        replay: ReplayOptions,
        metadata: Arc<FileMetadata>,
        switch: &Arc<FileSwitch>,
    ) -> Self {
        Self {
            reader: input.reader,
            pipe: input.pipe,
            is_dry: false,
            replay,
            origins,
            metadata,
            is_full: false,
            progress: Arc::clone(&switch.progress),
            is_at_packet: false,
            known: 0,
            generation: 0,
            first: None,
            first_of_round: None,
            shift: 0,
            odd_times: OddTimes::default(),
            told_times: OddTimes::default(),
            newest: 0,
            started: None,
            is_over: false,
            failure: None,
            switch: Arc::clone(switch),
        }
    }

    /// Checks start, stop and masks; returns whether packets may be delivered now.
    #[inline]
    pub(super) fn is_running(&mut self) -> bool {
        (self.is_dry, self.is_full) = (false, false);
        if self.started.is_none() {
            self.started = self.switch.started();
        }
        if self.switch.is_stopped() {
            self.end();
        }
        let generation = self.switch.generation();
        if generation != self.generation {
            self.generation = generation;
            self.origins.select(self.switch.mask());
        }
        self.started.is_some() && !self.is_over
    }

    /// Moves to the next selected packet, unless the reader is already at one. `None` if there is
    /// none, or it is incomplete or not due, or `skips` packets were skipped. The caller delivers
    /// the packet and calls [`FileCursor::take`].
    #[inline(always)]
    pub(super) fn seek(&mut self, skips: &mut usize) -> Option<Selected> {
        loop {
            while !self.is_at_packet {
                match self.reader.step() {
                    Ok(Step::Packet) => self.is_at_packet = true,
                    Ok(Step::Metadata) => self.pass_on()?,
                    ended => self.turn(ended.err())?,
                }
            }
            let record = self.reader.current();
            let (interface, direction) = (record.interface, record.direction);
            let timestamp = record.timestamp.saturating_add(self.shift);
            if interface as usize >= self.known {
                self.learn()?;
            }
            self.newest = self.newest.max(timestamp);
            if let Some((queue, class, is_hidden)) = self.origins.selected(interface, direction) {
                let is_due = !self.replay.is_paced || self.wait().is_zero();
                let says_more = is_hidden || !self.reader.options().is_empty();
                return is_due.then_some(Selected { timestamp, queue, class, says_more });
            }
            self.is_at_packet = false;
            *skips = skips.checked_sub(1)?;
        }
    }

    /// Whether a packet can be delivered now; see [`FileCursor::seek`].
    #[cold]
    pub(super) fn has_packet(&mut self) -> bool {
        self.seek(&mut { 0 }).is_some()
    }

    /// Metadata of the packet that [`FileCursor::seek`] found: the number of its interface, and the
    /// options of its block.
    #[cold]
    pub(super) fn attachment(&self) -> (u32, &[u8]) {
        (self.origins.number(self.reader.current().interface), self.reader.options())
    }

    /// Bytes and wire length of the packet that [`FileCursor::seek`] found.
    #[inline(always)]
    pub(super) fn packet(&self) -> (&[u8], u32) {
        let record = self.reader.current();
        (record.data, record.original_len)
    }

    /// Reports changed timestamps to the port, if there are new ones.
    #[inline]
    pub(super) fn tell_times(&mut self) {
        let now = self.odd_times.plus(self.reader.odd_times());
        if now != self.told_times {
            self.told_times = now;
            *lock(&self.progress.odd_times) = now;
        }
    }

    /// Marks the packet as delivered.
    #[inline(always)]
    pub(super) fn take(&mut self) {
        self.is_at_packet = false;
    }

    /// How long the packet must wait, to keep the gaps of the file.
    pub(super) fn wait(&self) -> Duration {
        let (true, true, Some(started), Some(first)) =
            (self.replay.is_paced, self.is_at_packet, self.started, self.first)
        else {
            return Duration::ZERO;
        };
        let elapsed = clock::monotonic_ns().saturating_sub(started);
        let due = self.reader.current().timestamp.saturating_add(self.shift).saturating_sub(first);
        Duration::from_nanos(due.saturating_sub(elapsed))
    }

    /// The descriptor to wait for, if the input has paused.
    pub(super) fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().filter(|_| self.is_dry).map(|pipe| pipe.as_fd())
    }

    /// Whether the reader waits for a writer to take other blocks.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(super) fn is_started(&self) -> bool {
        self.started.is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The error, returned once.
    pub(super) fn failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Later packets are not older than this, if the file is in order. `u64::MAX` after the end.
    pub(super) fn watermark(&self) -> u64 {
        if self.is_over { u64::MAX } else { self.newest }
    }

    /// Ends reading because of an error.
    pub(super) fn fail(&mut self, error: Error) {
        self.failure = Some(error);
        self.end();
    }

    fn end(&mut self) {
        if self.shift == 0 {
            let is_wanted = self.metadata.is_wanted();
            let lost = if is_wanted { self.lost() } else { self.reader.lost().of_reading() };
            *lock(&self.progress.lost) = lost;
        }
        self.is_over = true;
        self.is_at_packet = false;
    }

    /// Metadata that no writer of the packets receives. Options of the section that follow the
    /// first packets are too late for it.
    fn lost(&self) -> Losses {
        let count = |section: &Section| options(&section.options).count() as u64;
        let late = self.reader.section().map_or(0, count) - count(self.metadata.section().1);
        let mut lost = self.reader.lost().plus(self.metadata.left_out());
        lost.file_options += late;
        lost
    }

    /// Queues a block for the writers, in the first round. `None` if they must take blocks before
    /// the reader continues.
    #[cold]
    fn pass_on(&mut self) -> Option<()> {
        if !self.metadata.is_wanted() || self.shift > 0 {
            return Some(());
        }
        if let Some(metadata) = self.reader.metadata() {
            self.metadata.put(metadata);
        }
        self.is_full = !self.metadata.has_room();
        (!self.is_full).then_some(())
    }

    /// Starts the next round at the end of a whole file, if it repeats and the file has packets.
    /// Does nothing if more input may follow.
    #[cold]
    fn turn(&mut self, damage: Option<CaptureError>) -> Option<()> {
        self.is_dry = damage.as_ref().is_some_and(CaptureError::is_would_block);
        if self.is_dry {
            return None;
        }
        let first = self.first_of_round.take().filter(|_| self.replay.again > 0);
        let input = match (damage, first) {
            // The stop ended the wait for more bytes.
            (Some(_), _) if self.switch.is_stopped() => {
                self.end();
                return None;
            }
            (Some(damage), _) => Err(damage),
            (None, Some(_)) => pipe::open(self.replay.path.as_ref(), self.switch.halt()),
            (None, None) => {
                self.end();
                return None;
            }
        };
        let input = match input {
            Ok(input) => input,
            Err(error) => {
                self.fail(error.into());
                return None;
            }
        };
        let shift = self.newest.saturating_add(1).saturating_sub(first.unwrap_or(0));
        // The newest time of the next round, if its times equal those in this round.
        if (self.newest - self.shift).checked_add(shift).is_none() {
            let error =
                Error::failed(self.reader.name(), "its times, when repeated, exceed the year 2554");
            self.fail(error.help("use a smaller loop="));
            return None;
        }
        self.odd_times = self.odd_times.plus(self.reader.odd_times());
        (self.reader, self.pipe) = (input.reader, input.pipe);
        self.replay.again -= 1;
        self.shift = shift;
        self.known = 0;
        Some(())
    }

    /// Records the first time, and interfaces that are described between packets.
    #[cold]
    fn learn(&mut self) -> Option<()> {
        let time = self.reader.current().timestamp;
        self.first_of_round.get_or_insert(time);
        self.first.get_or_insert(time);
        let known = self.origins.len();
        if let Err(error) = self.origins.extend(self.reader.interfaces(), self.reader.name()) {
            self.fail(error);
            return None;
        }
        if let Some(table) = self.metadata.interface_table() {
            let all = self.reader.interfaces();
            let strangers = self.origins.adopt(known, all, self.replay.snaplen, table);
            self.progress.strangers.add(strangers as u64);
        }
        self.known = self.origins.len();
        Some(())
    }
}
