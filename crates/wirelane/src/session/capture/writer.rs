//! The writing side of a capture: one thread per output file.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use wirelane_os::clock;
use wirelane_os::event::Event;

use super::calm::Calm;
use super::chunk::Chunk;
use super::credit::Credit;
use super::file_interfaces::FileInterfaces;
use super::limit::LimitShare;
use super::merge::ChunkMerge;
use super::view::ViewInput;
use crate::pcap::pcapng::MetadataBlock;
use crate::pcap::{CaptureError, CaptureWriter, Record, Statistics, Written};
use crate::port::{InterfaceTable, MetadataQueue};
use crate::ring::{Receiver, Sender};
use crate::session::interfaces;
use crate::stats::RxCounters;
use crate::sync::{Counter, Doorbell, Watermark};

/// The longest sleep while packets wait until the view has shown earlier ones.
const SHORT_SLEEP: Duration = Duration::from_millis(1);

/// How long to wait for a silent input while there is memory, in nanoseconds: on a busy machine its
/// thread may get no CPU.
const LONGEST_WAIT: u64 = 10_000_000_000;

/// The writer's end of a [`super::lane::WriterPath`].
pub(super) struct WriterInput {
    /// The interface of its packets; `None` if they have several.
    pub(super) interface: Option<u32>,
    /// A file that may describe further interfaces.
    pub(super) late: Option<Arc<InterfaceTable>>,
    pub(super) filled: Receiver<Chunk>,
    pub(super) spent: Sender<Chunk>,
    pub(super) watermark: Arc<Watermark>,
}

impl WriterInput {
    /// The interface of all of its packets.
    fn interface(&self) -> Option<u32> {
        let has_more = self.late.as_ref().is_some_and(|late| late.has_late());
        self.interface.filter(|_| !has_more)
    }
}

/// The limit of a writer's wait for a silent input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// By the clock: packets that are too old leave.
    Clock,
    /// Wait for the input while there is memory, and then by the clock.
    Memory,
    /// Wait for the input without limit. A separate thread fills it, and waits for no other input.
    Input,
}

pub(super) struct WriterThread {
    /// `None` if packets are only viewed.
    pub(super) file: Option<CaptureWriter>,
    /// The view of the packets, if there is one.
    pub(super) view: Option<ViewInput>,
    pub(super) inputs: Vec<WriterInput>,
    /// How many inputs have ended.
    pub(super) ended: usize,
    /// The packets of the single input keep their order, independent of their times.
    pub(super) keeps_order: bool,
    /// Blocks of the files that are read, for this file.
    pub(super) metadata: Vec<Arc<MetadataQueue>>,
    /// The interfaces of the file, and the counters of the interfaces that are described in it.
    pub(super) file_interfaces: Arc<FileInterfaces>,
    pub(super) counters: Vec<Arc<RxCounters>>,
    /// Interfaces that the file cannot store, and the reasons.
    pub(super) refused: BTreeMap<u32, CaptureError>,
    pub(super) bell: Arc<Doorbell>,
    /// How long to wait for a silent input when memory is scarce, in nanoseconds.
    pub(super) lateness: u64,
    /// The memory of the lanes.
    pub(super) credit: Arc<Credit>,
    /// How many packets may leave; `None` for all.
    pub(super) share: Option<LimitShare>,
    pub(super) patience: Patience,
    /// Merged packets are written at once.
    pub(super) prompt: bool,
    /// Time between two statistics blocks, in nanoseconds.
    pub(super) statistics_every: u64,
    /// The written packets so far, for other threads.
    pub(super) written: Arc<WriterProgress>,
    /// Set after a failure to write.
    pub(super) failed: Arc<Event>,
    pub(super) ledger: UnwrittenInterfaces,
    pub(super) fresh: Vec<Chunk>,
    pub(super) scratch: Vec<u8>,
    pub(super) calm: Calm,
    /// The last step has found packets.
    pub(super) is_busy: bool,
}

/// The written packets of one writer so far, for other threads.
#[derive(Default)]
pub(super) struct WriterProgress {
    files: Counter,
    packets: Counter,
    bytes: Counter,
}

impl WriterProgress {
    fn set(&self, written: Written) {
        self.files.set(written.files);
        self.packets.set(written.packets);
        self.bytes.set(written.bytes);
    }

    /// The written packets of all these writers.
    pub(super) fn sum(all: &[Arc<Self>]) -> Written {
        let sum = |of: fn(&Self) -> &Counter| all.iter().map(|one| of(one).value()).sum();
        Written {
            files: sum(|one| &one.files),
            packets: sum(|one| &one.packets),
            bytes: sum(|one| &one.bytes),
        }
    }
}

/// How a writer ended.
pub(super) struct Finished {
    pub(super) written: Written,
    pub(super) violations: u64,
    pub(super) error: Option<CaptureError>,
    /// Notes for the user.
    pub(super) notes: Vec<String>,
}

impl Finished {
    /// Nothing was written.
    pub(super) fn nothing() -> Self {
        Self { written: Written::default(), violations: 0, error: None, notes: Vec::new() }
    }
}

impl WriterThread {
    /// Ends the file. After an error it continues to take and count packets until every input has
    /// ended, so that every packet is counted and no worker waits for a dead writer.
    pub(super) fn end(
        mut self,
        merge: ChunkMerge,
        started: u64,
        error: Option<CaptureError>,
    ) -> Finished {
        // Lets the view end after all merged packets.
        self.view = None;
        let violations = merge.violations();
        if error.is_some() {
            self.failed.happen();
            self.share = None;
            let written = self.file.as_ref().map(CaptureWriter::written).unwrap_or_default();
            self.written.set(written);
            self.count_unwritten(merge, written.packets);
            return Finished { written, violations, error, notes: self.notes() };
        }
        let statistics = self.statistics(started, Some(clock::realtime_ns()));
        let notes = self.notes();
        let Some(file) = &mut self.file else {
            return Finished { violations, notes, ..Finished::nothing() };
        };
        let error = file.end(&statistics).err();
        let written = file.written();
        self.written.set(written);
        self.ledger.lost_after(written.packets, &self.counters);
        Finished { written, violations, error, notes: self.notes() }
    }

    /// Notes about interfaces and metadata that the file cannot store.
    fn notes(&self) -> Vec<String> {
        let of = |(interface, error): (&u32, &CaptureError)| {
            let counters = self.counters.get(*interface as usize)?;
            let name = counters.interface.as_deref().unwrap_or("an interface");
            Some(format!("packets of {name} were dropped by the writer: {error}"))
        };
        let mut lost = self.file.as_ref().map(CaptureWriter::lost).unwrap_or_default();
        if self.metadata.is_empty() {
            // A pcap file loses no interfaces that the user expects.
            lost.interfaces = 0;
        }
        let displaced = self.file.as_ref().and_then(CaptureWriter::displaced);
        let shortage = self.file.as_ref().and_then(CaptureWriter::shortage).map(str::to_owned);
        let refused = self.refused.iter().filter_map(of);
        refused.chain(lost.notes()).chain(displaced).chain(shortage).collect()
    }

    /// Writes the available packets; true after every input has ended.
    pub(super) fn step(
        &mut self,
        merge: &mut ChunkMerge,
        started: u64,
        next_statistics: &mut u64,
    ) -> Result<bool, CaptureError> {
        let finished = self.collect(merge);
        self.add_interfaces()?;
        self.add_blocks()?;
        let now = clock::realtime_ns();
        if self.file.as_ref().is_some_and(CaptureWriter::is_rotating) {
            // Any of the next packets may end a file.
            let statistics = self.statistics(started, None);
            self.file.iter_mut().for_each(|file| file.keep_statistics(&statistics));
        }
        self.write_ready(merge, now.saturating_sub(self.wait()))?;
        self.cut_rest(merge);
        // A writer that shares a limit may have to wait for the others.
        let finished = finished && (self.share.is_none() || merge.is_empty());
        let is_over = self.share.as_ref().is_some_and(LimitShare::is_used_up);
        // Packets may wait for the decision about other writers' packets. After the limit, the
        // horizon no longer advances.
        let horizon = if is_over { 0 } else { merge.horizon().min(merge.oldest()) };
        self.view.iter_mut().for_each(|view| view.pause(horizon));
        let due = now >= *next_statistics;
        let statistics = (due && !finished).then(|| self.statistics(started, None));
        if let Some(file) = &mut self.file {
            if self.prompt {
                file.flush()?;
            }
            self.written.set(file.written());
            if !finished {
                statistics.iter().for_each(|statistics| file.write_statistics(statistics));
                file.flush_if_older(clock::monotonic_ns())?;
                if !is_over {
                    file.advance(horizon.min(now))?;
                }
            }
        }
        if due {
            *next_statistics = now + self.statistics_every;
        }
        self.is_busy |=
            !merge.is_empty() || self.file.as_ref().is_some_and(CaptureWriter::is_rotating);
        Ok(finished)
    }

    /// How long to wait for a silent input now. Disorder is preferred to losses: waiting packets
    /// need memory.
    fn wait(&self) -> u64 {
        let is_scarce = self.credit.is_scarce();
        match self.patience {
            // Packets of files are old: their age must not break the order of several files.
            Patience::Input => return u64::MAX,
            Patience::Memory if !is_scarce => return u64::MAX,
            Patience::Memory | Patience::Clock => {}
        }
        let short = self.inputs.len() == 1 || is_scarce;
        if short { self.lateness } else { self.lateness.max(LONGEST_WAIT) }
    }

    /// Takes new chunks; true after every input has ended.
    fn collect(&mut self, merge: &mut ChunkMerge) -> bool {
        let mut ended = 0;
        for (i, input) in self.inputs.iter_mut().enumerate() {
            // Read before the ring: all older packets were handed over before.
            let time = input.watermark.get();
            self.is_busy |= input.filled.receive(&mut self.fresh, usize::MAX) > 0;
            for mut chunk in self.fresh.drain(..) {
                if self.keeps_order {
                    merge.append(i, chunk);
                    continue;
                }
                chunk.sort(&mut self.scratch);
                if let Some(share) = &self.share {
                    share.announce(chunk.blocks(0).map(|(time, _)| time));
                }
                merge.push(i, chunk, &mut self.scratch, |absorbed| {
                    give_back(&mut input.spent, absorbed);
                });
            }
            let is_finished = input.filled.is_finished();
            merge.set_watermark(i, if is_finished { u64::MAX } else { time });
            ended += usize::from(is_finished);
        }
        self.ended = ended;
        ended == self.inputs.len()
    }

    /// Describes interfaces that were found since the last call; their packets follow. If the
    /// format cannot store an interface, copying a file ends with an error. A capture of a network
    /// continues with the other interfaces.
    fn add_interfaces(&mut self) -> Result<(), CaptureError> {
        let is_copy = self.inputs.iter().any(|input| input.late.is_some());
        for interface in self.file_interfaces.since(self.counters.len()) {
            if let Some(view) = &self.view {
                view.describe(&interface);
            }
            let added = self.file.as_mut().map(|file| file.add_source(interface.source));
            if let Some(Err(error)) = added {
                if is_copy {
                    return Err(error);
                }
                self.refused.insert(self.counters.len() as u32, error);
            }
            self.counters.push(interface.counters);
        }
        Ok(())
    }

    /// Writes the blocks that were read before the received packets.
    fn add_blocks(&mut self) -> Result<(), CaptureError> {
        let Self { metadata, file: Some(file), .. } = self else { return Ok(()) };
        for block in metadata.iter().flat_map(|queue| std::iter::from_fn(|| queue.take())) {
            if let Some(metadata) = MetadataBlock::new(&block) {
                file.write_metadata(metadata)?;
            }
        }
        Ok(())
    }

    /// Writes the packets that may leave: packets older than all inputs' watermarks, and overdue
    /// ones.
    fn write_ready(&mut self, merge: &mut ChunkMerge, overdue: u64) -> Result<(), CaptureError> {
        let Self { file, view, ledger, inputs, refused, counters, share, .. } = self;
        let limit = merge.horizon().max(overdue);
        let takes_blocks = file.as_ref().is_some_and(CaptureWriter::takes_blocks);
        share.iter_mut().for_each(|share| share.decide(merge.horizon(), overdue));
        loop {
            let room = share.as_ref().map_or(u64::MAX, LimitShare::room);
            // Packets of the run that count towards the limit.
            let mut taken = 0;
            let popped = merge.pop(limit, room, |run| {
                taken = run.packets;
                if let Some(view) = view {
                    view.take(&run);
                }
                let Some(file) = file else { return Ok(()) };
                match inputs.get(run.input).and_then(WriterInput::interface) {
                    Some(interface) => ledger.enter(interface, run.packets),
                    None => run
                        .records()
                        .filter(|record| !refused.contains_key(&record.interface))
                        .for_each(|record| ledger.enter(record.interface, 1)),
                }
                if takes_blocks {
                    return file.write_blocks(run.bytes(), run.packets);
                }
                run.with_options().try_for_each(|(record, options)| {
                    if !refused.contains_key(&record.interface) {
                        return file.write_with(&record, options);
                    }
                    // Another packet takes its place in the limit.
                    taken -= 1;
                    if let Some(counters) = counters.get(record.interface as usize) {
                        counters.count_unwritten(1, Some(u64::from(record.original_len)));
                    }
                    Ok(())
                })
            })?;
            let Some(from) = popped else { return Ok(()) };
            share.iter_mut().for_each(|share| share.use_up(taken));
            if let Some(chunk) = merge.take_spent(from) {
                give_back(&mut inputs[from].spent, chunk);
                file.iter().for_each(|file| ledger.settle(file.written().packets));
            }
        }
    }

    /// After the limit is reached, drops the rest.
    fn cut_rest(&mut self, merge: &mut ChunkMerge) {
        if !self.share.as_ref().is_some_and(LimitShare::is_used_up) {
            return;
        }
        for (i, input) in self.inputs.iter_mut().enumerate() {
            let cut = |record: Record<'_>| {
                if let Some(counters) = self.counters.get(record.interface as usize) {
                    counters.count_cut(u64::from(record.original_len));
                }
            };
            while let Some(chunk) = merge.take_unwritten(i, cut) {
                give_back(&mut input.spent, chunk);
            }
        }
    }

    /// The counters of every interface, as for statistics blocks.
    fn statistics(&self, start: u64, end: Option<u64>) -> Vec<Statistics> {
        interfaces::statistics(&self.counters, start, end)
    }

    /// Whether an input has chunks or has ended.
    pub(super) fn is_ready(&mut self) -> bool {
        // The end of an input is reported once.
        let mut finished = 0;
        for input in &mut self.inputs {
            if input.filled.is_ready() {
                return true;
            }
            finished += usize::from(input.filled.is_finished());
        }
        finished > self.ended
    }

    /// How long to sleep now without news.
    pub(super) fn longest_sleep(&mut self) -> Duration {
        let longest = self.calm.sleep(std::mem::take(&mut self.is_busy));
        if self.holds_packets() { SHORT_SLEEP } else { longest }
    }

    /// Whether packets wait until the view has shown earlier ones.
    pub(super) fn holds_packets(&self) -> bool {
        self.view.as_ref().is_some_and(ViewInput::is_held)
    }

    /// Counts packets that were handed over but did not reach the file as dropped, until all inputs
    /// end.
    fn count_unwritten(&mut self, mut merge: ChunkMerge, safe: u64) {
        self.ledger.lost_after(safe, &self.counters);
        loop {
            let finished = self.collect(&mut merge);
            self.counters.extend(
                self.file_interfaces.since(self.counters.len()).into_iter().map(|one| one.counters),
            );
            let lose = |record: Record<'_>| {
                let Some(counters) = self.counters.get(record.interface as usize) else { return };
                counters.count_unwritten(1, Some(u64::from(record.original_len)));
            };
            for (i, input) in self.inputs.iter_mut().enumerate() {
                while let Some(chunk) = merge.take_unwritten(i, lose) {
                    give_back(&mut input.spent, chunk);
                }
            }
            if finished {
                return;
            }
            let longest = self.longest_sleep();
            let bell = Arc::clone(&self.bell);
            bell.sleep(|| self.is_ready(), longest);
        }
    }
}

/// Returns a chunk to the thread that fills it. There is room: the ring holds all of its chunks.
fn give_back(spent: &mut Sender<Chunk>, chunk: Chunk) {
    let returned = spent.send_one(chunk);
    debug_assert!(returned.is_ok());
}

/// The interfaces of the packets that the file has taken and not safely written yet.
#[derive(Default)]
pub(super) struct UnwrittenInterfaces {
    entries: VecDeque<(u32, u64)>,
    /// Packets before the first entry.
    settled: u64,
}

impl UnwrittenInterfaces {
    fn enter(&mut self, interface: u32, packets: u64) {
        match self.entries.back_mut() {
            Some((last, count)) if *last == interface => *count += packets,
            _ => self.entries.push_back((interface, packets)),
        }
    }

    /// Removes entries: `safe` packets are in the file in total.
    fn settle(&mut self, safe: u64) {
        while let Some((_, count)) = self.entries.front_mut() {
            let covered = (safe - self.settled).min(*count);
            *count -= covered;
            self.settled += covered;
            if *count > 0 {
                return;
            }
            self.entries.pop_front();
        }
    }

    /// The file ends with `safe` packets: all later packets are lost.
    fn lost_after(&mut self, safe: u64, counters: &[Arc<RxCounters>]) {
        self.settle(safe);
        for (interface, packets) in self.entries.drain(..) {
            let Some(counters) = counters.get(interface as usize) else { continue };
            // The lengths of these packets are no longer known.
            counters.count_unwritten(packets, None);
        }
    }
}
