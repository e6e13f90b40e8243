//! The exact merge of finished files: every packet of every input, in order of time, in one file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::cancel::{Cancel, CancelSource};
use crate::error::CaptureError;
use crate::format::FileFormat;
use crate::losses::Losses;
use crate::options::WriterOptions;
use crate::pcapng::{self, MAX_PACKET, Step};
use crate::pipe;
use crate::reader::CaptureReader;
use crate::record::{LINK_TYPE_ETHERNET, OddTimes, Record, Section, Source, Statistics};
use crate::writer::{CaptureWriter, Written};

/// The longest time for counting packets behind a limit.
const LONGEST_COUNT: Duration = Duration::from_secs(1);

/// The result of a merge.
#[derive(Debug)]
#[non_exhaustive]
pub struct MergeReport {
    /// One entry per input, in their order.
    pub inputs: Vec<MergedInput>,
    /// Files, packets and bytes written.
    pub written: Written,
    /// Contents of the inputs that the output lacks.
    pub lost: Losses,
    /// Sentences about work with less memory than requested.
    pub shortage: Option<String>,
    /// Packets in the output that are older than their predecessor. Not 0 only if an input is not
    /// in order.
    pub out_of_order: u64,
    /// The end was requested before the inputs ended.
    pub stopped: bool,
    /// Why the output is incomplete. [`MergeReport::written`] counts the packets that are safe.
    pub failure: Option<CaptureError>,
}

/// Options of the output, and the interface through which other threads watch and end a merge.
#[derive(Clone, Debug, Default)]
pub struct MergeControl {
    cancel: Cancel,
    taken: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
    options: Option<WriterOptions>,
    snaplen: Option<u32>,
    packets: Option<u64>,
}

/// What to do with a packet of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write it.
    Take,
    /// Skip it.
    Leave,
    /// Skip it and all later packets.
    End,
}

impl MergeControl {
    /// `cancel` ends the merge: the output then holds the packets merged so far.
    #[must_use]
    pub fn new(cancel: impl Into<Cancel>) -> Self {
        Self { cancel: cancel.into(), ..Self::default() }
    }

    /// Writes the output with these options, whatever its suffix. The comments of these options
    /// precede the comments and other options of the inputs.
    #[must_use]
    pub fn options(self, options: WriterOptions) -> Self {
        Self { options: Some(options), ..self }
    }

    /// Truncates packets to this number of bytes.
    #[must_use]
    pub fn snaplen(self, snaplen: Option<u32>) -> Self {
        Self { snaplen, ..self }
    }

    /// Ends after this number of packets. When the output is finished, the packets behind the limit
    /// are counted.
    #[must_use]
    pub fn limit(self, packets: Option<u64>) -> Self {
        Self { packets, ..self }
    }

    /// Packets taken from the inputs so far, and packets that are safely in the output.
    #[must_use]
    pub fn packets(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed))
    }
}

/// The result of one input.
#[derive(Debug)]
#[non_exhaustive]
pub struct MergedInput {
    /// Its path.
    pub path: PathBuf,
    /// Packets taken from it.
    pub packets: u64,
    /// Packets that were skipped.
    pub left: u64,
    /// Packets behind the last one that [`MergeControl::limit`] permitted. `None` if the count is
    /// incomplete: the input is a pipe or damaged, or the merge was stopped.
    pub omitted: Option<u64>,
    /// Its interfaces.
    pub interfaces: usize,
    /// Packets that are older than the one before them in this input.
    pub out_of_order: u64,
    /// Packets whose time differs from the time in the file.
    pub odd_times: OddTimes,
    /// Packets that were truncated to [`MAX_PACKET`](super::pcapng::MAX_PACKET).
    pub cut: u64,
    /// The damage of the input, if any. All packets before it are in the output.
    pub damage: Option<CaptureError>,
}

/// Merges capture files of any format into one, by time. With one input, it converts the file to
/// another format.
///
/// Packets of equal time keep the order of the inputs, and packets of one input keep their order:
/// an input that is not in order makes an output that is not in order, which the report counts.
/// Interfaces are renumbered in the order of the inputs, and their last statistics are written at
/// the end. For a damaged input, all packets before the damage are merged. Other threads use
/// `control` to end the merge and read its progress.
///
/// The output keeps packets with their time in nanoseconds, their lengths and options; interfaces
/// with their options and statistics; comments of files; names, secrets and custom blocks. Sections
/// become one. [`MergeReport::lost`] counts contents that the format of the output cannot hold. The
/// report of each input counts the packets that were changed.
///
/// # Errors
/// An input cannot be opened, or the output cannot be created or is one of the inputs; `control`
/// requested the end while an input had sent no header, or while the output had no reader. Later
/// failures are in [`MergeReport::failure`].
pub fn merge_files(
    inputs: &[PathBuf],
    output: &Path,
    control: &MergeControl,
) -> Result<MergeReport, CaptureError> {
    merge_selected(inputs, output, control, &mut |_, _| Verdict::Take)
}

/// As [`merge_files`], with only the packets that `select` takes; `select` also receives their
/// interfaces. All other blocks are kept.
///
/// # Errors
/// As [`merge_files`].
pub fn merge_selected(
    inputs: &[PathBuf],
    output: &Path,
    control: &MergeControl,
    select: &mut dyn FnMut(&Record<'_>, &Source) -> Verdict,
) -> Result<MergeReport, CaptureError> {
    let open = |path: &PathBuf| MergeInput::open(path, control);
    let mut streams = inputs.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let options = control.options.clone().unwrap_or_else(|| WriterOptions::of_path(output));
    let options = WriterOptions {
        section: section(&streams, options.section),
        inputs: streams.iter().filter_map(|stream| stream.reader.file()).collect(),
        cancel: control.cancel.clone(),
        ..options
    };
    let sources = sources(&streams, options.format);
    let writer = CaptureWriter::create(output, &sources, options, 0)?;
    if !sources.is_empty() {
        // The interface in the header represents all interfaces of the inputs.
        streams.iter_mut().for_each(MergeInput::share_header);
    }
    let mut merge = RunningMerge { streams, writer, control, out_of_order: 0, unread: Vec::new() };
    let failure = merge.run(select).err();
    let RunningMerge { mut streams, writer, out_of_order, unread, .. } = merge;
    let stopped = control.cancel.is_asked() && streams.iter().any(|stream| !stream.has_ended);
    let lost = streams.iter().map(MergeInput::lost).fold(writer.lost(), Losses::plus);
    for (index, standing) in unread {
        streams
            .get_mut(index)
            .into_iter()
            .for_each(|one| one.count_rest(standing, &control.cancel));
    }
    let inputs = streams.into_iter().map(|stream| stream.report).collect();
    let (written, shortage) = (writer.written(), writer.shortage().map(str::to_owned));
    Ok(MergeReport { inputs, written, lost, shortage, out_of_order, stopped, failure })
}

/// The interfaces in the header of the output: none for pcapng; for classic pcap, which must
/// describe its interface there, all interfaces known so far.
fn sources(streams: &[MergeInput], format: FileFormat) -> Vec<Source> {
    if format == FileFormat::Pcapng {
        return Vec::new();
    }
    let of_one = |stream: &MergeInput| {
        let snaplen = stream.snaplen;
        stream
            .reader
            .interfaces()
            .iter()
            .map(move |source| cut(source, snaplen))
            .collect::<Vec<_>>()
    };
    let sources: Vec<_> = streams.iter().flat_map(of_one).collect();
    if !sources.is_empty() {
        return sources;
    }
    // Without packets, the file still needs a header.
    vec![Source { link_type: LINK_TYPE_ETHERNET, ..Source::default() }]
}

/// The section header of the output.
fn section(streams: &[MergeInput], mut section: Section) -> Section {
    let name = |one: &MergeInput| {
        one.report.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    };
    let inputs = streams.iter().filter_map(|one| Some((name(one), one.reader.section()?)));
    section.inherit(&inputs.collect::<Vec<_>>());
    section
}

/// A running merge.
struct RunningMerge<'a> {
    streams: Vec<MergeInput>,
    writer: CaptureWriter,
    control: &'a MergeControl,
    out_of_order: u64,
    /// Inputs that were not read to their end because of the limit, each with its number of packets
    /// that were read and not written.
    unread: Vec<(usize, u64)>,
}

impl RunningMerge<'_> {
    /// Merges until the inputs end, or until the control requests the end.
    fn run(
        &mut self,
        select: &mut dyn FnMut(&Record<'_>, &Source) -> Verdict,
    ) -> Result<(), CaptureError> {
        let Self { streams, writer, control, out_of_order, unread } = self;
        // Known interfaces first, so that the output begins like a capture.
        for stream in streams.iter_mut() {
            stream.describe(writer)?;
        }
        // The heap holds the time and number of every stream that has a packet; equal times are in
        // order of numbers.
        let mut heads = BinaryHeap::new();
        for (index, stream) in streams.iter_mut().enumerate() {
            let time = stream.advance(writer, &control.cancel)?;
            heads.extend(time.map(|time| Reverse((time, index))));
        }
        let (mut newest, mut taken) = (0, 0);
        while let Some(mut head) = heads.peek_mut().filter(|_| !control.cancel.is_asked()) {
            let Reverse((time, index)) = *head;
            let Some(stream) = streams.get_mut(index) else { break };
            match stream.verdict(select) {
                Verdict::Take => {
                    stream.write(writer)?;
                    taken += 1;
                    control.taken.store(taken, Ordering::Relaxed);
                    control.written.store(writer.written().packets, Ordering::Relaxed);
                    if time < newest {
                        *out_of_order += 1;
                    }
                    newest = time;
                    if control.packets == Some(taken) {
                        PeekMut::pop(head);
                        unread.push((index, 0));
                        break;
                    }
                }
                Verdict::Leave => stream.report.left += 1,
                Verdict::End => break,
            }
            match stream.advance(writer, &control.cancel)? {
                Some(time) => *head = Reverse((time, index)),
                None => drop(PeekMut::pop(head)),
            }
        }
        if !unread.is_empty() {
            // Each of the other inputs has read one packet that is not written.
            unread.extend(heads.into_iter().map(|Reverse((_, index))| (index, 1)));
        }
        let mut statistics = Vec::new();
        for stream in streams {
            stream.describe(writer)?;
            statistics.extend(stream.statistics());
        }
        writer.end(&statistics)
    }
}

/// One input of a running merge.
struct MergeInput {
    reader: CaptureReader,
    report: MergedInput,
    /// For each interface of this input, its number in the output.
    interfaces: Vec<u32>,
    /// Time of the current packet.
    time: u64,
    /// The input ended or is damaged.
    has_ended: bool,
    /// The number of section options when the output was begun.
    section_options: usize,
    /// Most bytes to keep of a packet.
    snaplen: Option<u32>,
}

impl MergeInput {
    fn open(path: &Path, control: &MergeControl) -> Result<Self, CaptureError> {
        let report = MergedInput {
            path: path.into(),
            packets: 0,
            left: 0,
            omitted: Some(0),
            interfaces: 0,
            out_of_order: 0,
            odd_times: OddTimes::default(),
            cut: 0,
            damage: None,
        };
        let reader = pipe::open_waiting(path, &control.cancel)?;
        let section_options = section_options(&reader);
        let (interfaces, snaplen) = (Vec::new(), control.snaplen);
        Ok(Self { reader, report, interfaces, time: 0, has_ended: false, section_options, snaplen })
    }

    /// Moves to the next packet and returns its time; `None` at the end, at damage, and if the wait
    /// was cancelled. Writes blocks beside packets to the output.
    fn advance(
        &mut self,
        writer: &mut CaptureWriter,
        cancel: &Cancel,
    ) -> Result<Option<u64>, CaptureError> {
        loop {
            match self.reader.step() {
                Ok(Step::Packet) => break,
                Ok(Step::Metadata) => {
                    self.reader
                        .metadata()
                        .map_or(Ok(()), |metadata| writer.write_metadata(metadata))?;
                }
                Err(_) if cancel.is_asked() => return Ok(None),
                ended => {
                    self.report.damage = ended.err();
                    self.has_ended = true;
                    return Ok(None);
                }
            }
        }
        // A packet without a time follows its predecessor.
        let time = match self.reader.current().timestamp {
            0 => self.time,
            time => time,
        };
        if time < self.time {
            self.report.out_of_order += 1;
        }
        self.report.cut += u64::from(self.reader.current().data.len() > MAX_PACKET);
        self.report.odd_times = self.reader.odd_times();
        self.time = time;
        Ok(Some(time))
    }

    /// Counts the packets behind the limit, of which `standing` are already read. Gives up at once
    /// on a pipe, which may never end, and on a file after [`LONGEST_COUNT`].
    fn count_rest(&mut self, standing: u64, cancel: &Cancel) {
        let taken = self.reader.packets();
        let is_file = self.reader.file().is_some();
        let end = Instant::now() + LONGEST_COUNT;
        let is_late = |packets: u64| {
            packets.is_multiple_of(1024) && (cancel.is_asked() || Instant::now() > end)
        };
        while is_file && !is_late(self.reader.packets()) {
            match self.reader.advance() {
                Ok(true) => {}
                Ok(false) => {
                    self.report.omitted = Some(standing + self.reader.packets() - taken);
                    return;
                }
                Err(_) => break,
            }
        }
        self.report.omitted = None;
    }

    /// Contents of this input that the output lacks.
    fn lost(&self) -> Losses {
        let late = section_options(&self.reader) - self.section_options;
        let lost = self.reader.lost();
        Losses { file_options: lost.file_options + late as u64, ..lost }
    }

    /// Maps all interfaces known so far to the only interface of the output.
    fn share_header(&mut self) {
        self.interfaces = vec![0; self.reader.interfaces().len()];
    }

    /// Adds the interfaces to the output that this input has described since the last call.
    fn describe(&mut self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        for source in self.reader.interfaces().get(self.interfaces.len()..).unwrap_or_default() {
            self.interfaces.push(writer.add_source(cut(source, self.snaplen))?);
        }
        self.report.interfaces = self.interfaces.len();
        Ok(())
    }

    /// Whether to take the current packet. Packets of unknown interfaces are skipped.
    #[inline]
    fn verdict(&self, select: &mut dyn FnMut(&Record<'_>, &Source) -> Verdict) -> Verdict {
        let record = self.reader.current();
        let source = self.reader.interfaces().get(record.interface as usize);
        source.map_or(Verdict::Leave, |source| select(&record, source))
    }

    fn write(&mut self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        if self.reader.interfaces().len() > self.interfaces.len() {
            self.describe(writer)?;
        }
        self.report.packets += 1;
        let record = self.reader.current();
        let most = self.snaplen.map_or(usize::MAX, |snaplen| snaplen as usize);
        let record = Record { data: record.data.get(..most).unwrap_or(record.data), ..record };
        match self.interfaces.get(record.interface as usize) {
            Some(&interface) => {
                writer.write_with(&Record { interface, ..record }, self.reader.options())
            }
            None => Ok(()), // the decoder lets no packet of an undescribed interface pass
        }
    }

    fn statistics(&self) -> Vec<Statistics> {
        let renumber = |entry: Statistics| {
            self.interfaces
                .get(entry.interface as usize)
                .map(|&interface| Statistics { interface, ..entry })
        };
        self.reader.statistics().into_iter().filter_map(renumber).collect()
    }
}

/// The interface with its snap length reduced to `snaplen`.
fn cut(source: &Source, snaplen: Option<u32>) -> Source {
    let snaplen = match snaplen {
        Some(most) if source.snaplen == 0 => most,
        Some(most) => source.snaplen.min(most),
        None => source.snaplen,
    };
    Source { snaplen, ..source.clone() }
}

/// The number of options in the sections of a file so far.
fn section_options(reader: &CaptureReader) -> usize {
    reader.section().map_or(0, |section| pcapng::options(&section.options).count())
}
