//! The exact merge of finished files: every packet of every input, in order of time, in one pcapng file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::path::{Path, PathBuf};

use super::error::CaptureError;
use super::pcapng::MAX_PACKET;
use super::reader::CaptureReader;
use super::record::{OddTimes, Record, Statistics};
use super::writer::{CaptureWriter, FileFormat, WriterOptions, Written};

/// What a merge did.
#[derive(Debug)]
pub struct MergeReport {
    /// One entry per input, in their order.
    pub inputs: Vec<MergedInput>,
    /// What was written.
    pub written: Written,
    /// Packets in the output that are older than the one before them. Not 0 only if an input is not in order itself.
    pub out_of_order: u64,
}

/// One input of a merge.
#[derive(Debug)]
pub struct MergedInput {
    /// Its path.
    pub path: PathBuf,
    /// Packets taken from it.
    pub packets: u64,
    /// Its interfaces.
    pub interfaces: usize,
    /// Packets that are older than the one before them in this input.
    pub out_of_order: u64,
    /// Packets whose time is not that of the file.
    pub odd_times: OddTimes,
    /// Packets that are longer than [`MAX_PACKET`](super::pcapng::MAX_PACKET) and were cut to that.
    pub cut: u64,
    /// Where it was damaged. What came before is in the output.
    pub damage: Option<CaptureError>,
}

/// Merges capture files of any format into one pcapng file, by time.
///
/// Packets of equal time keep the order of the inputs, and packets of one input keep their order
/// whatever their times: an input that is not in order makes an output that is not, which the report
/// counts. Interfaces are numbered anew, in the order of the inputs, and their last statistics are
/// written at the end. Of a damaged input, everything before the damage is merged.
///
/// Kept are packets with their time in nanoseconds, their lengths and direction, interfaces and
/// statistics. Not kept are comments and other packet options, addresses of interfaces, name
/// resolution, and blocks of other kinds; the report counts packets that cannot be kept as they are.
///
/// # Errors
/// An input cannot be opened, or the output cannot be written. `output` must not be one of the inputs.
pub fn merge_files(inputs: &[PathBuf], output: &Path) -> Result<MergeReport, CaptureError> {
    for input in inputs {
        if same_file(input, output) {
            let (what, help) = ("it is an input of this merge too", "write to another file");
            return Err(CaptureError::Unsupported {
                name: output.display().to_string(),
                what,
                help,
            });
        }
    }
    let mut streams =
        inputs.iter().map(|path| Stream::open(path)).collect::<Result<Vec<_>, _>>()?;
    let options = WriterOptions { format: FileFormat::Pcapng, ..WriterOptions::of_path(output) };
    let mut writer = CaptureWriter::create(output, &[], options, 0)?;

    // Interfaces first where they are known first, so that the output begins as a capture would.
    for stream in &mut streams {
        stream.describe(&mut writer)?;
    }
    // The heap holds the time and number of every stream that has a packet; equal times go by number.
    let mut heads = BinaryHeap::new();
    for (index, stream) in streams.iter_mut().enumerate() {
        heads.extend(stream.advance().map(|time| Reverse((time, index))));
    }
    let (mut newest, mut out_of_order) = (0, 0);
    while let Some(mut head) = heads.peek_mut() {
        let Reverse((time, index)) = *head;
        let Some(stream) = streams.get_mut(index) else { break };
        stream.write(&mut writer)?;
        if time < newest {
            out_of_order += 1;
        }
        newest = time;
        match stream.advance() {
            Some(time) => *head = Reverse((time, index)),
            None => drop(PeekMut::pop(head)),
        }
    }
    let mut statistics = Vec::new();
    for stream in &mut streams {
        stream.describe(&mut writer)?;
        statistics.extend(stream.statistics());
    }
    let written = writer.finish(&statistics)?;
    Ok(MergeReport {
        inputs: streams.into_iter().map(|stream| stream.report).collect(),
        written,
        out_of_order,
    })
}

/// One input on its way through a merge.
struct Stream {
    reader: CaptureReader,
    report: MergedInput,
    /// Number in the output of each interface of this input.
    interfaces: Vec<u32>,
    /// Time of the current packet.
    time: u64,
}

impl Stream {
    fn open(path: &Path) -> Result<Self, CaptureError> {
        let report = MergedInput {
            path: path.into(),
            packets: 0,
            interfaces: 0,
            out_of_order: 0,
            odd_times: OddTimes::default(),
            cut: 0,
            damage: None,
        };
        Ok(Self { reader: CaptureReader::open(path)?, report, interfaces: Vec::new(), time: 0 })
    }

    /// Moves to the next packet and gives its time; `None` at the end or at the damage.
    fn advance(&mut self) -> Option<u64> {
        match self.reader.advance() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => {
                self.report.damage = Some(error);
                return None;
            }
        }
        // A packet without a time stays behind the one before it.
        let time = match self.reader.current().timestamp {
            0 => self.time,
            time => time,
        };
        if time < self.time {
            self.report.out_of_order += 1;
        }
        self.report.packets += 1;
        self.report.cut += u64::from(self.reader.current().data.len() > MAX_PACKET);
        self.report.odd_times = self.reader.odd_times();
        self.time = time;
        Some(time)
    }

    /// Describes the interfaces to the output that this input has described since the last call.
    fn describe(&mut self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        for source in self.reader.interfaces().get(self.interfaces.len()..).unwrap_or_default() {
            self.interfaces.push(writer.add_source(source.clone())?);
        }
        self.report.interfaces = self.interfaces.len();
        Ok(())
    }

    fn write(&mut self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        if self.reader.interfaces().len() > self.interfaces.len() {
            self.describe(writer)?;
        }
        let record = self.reader.current();
        match self.interfaces.get(record.interface as usize) {
            Some(&interface) => writer.write(&Record { interface, ..record }),
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

/// Whether two paths are one regular file, by device and inode.
fn same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (one.metadata(), other.metadata()) {
        (Ok(one), Ok(other)) => {
            one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
        }
        _ => false,
    }
}
