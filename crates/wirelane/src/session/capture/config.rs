//! The configuration of a capture, and its outcome.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;
use crate::halt::Halt;
use crate::pcap::{WriterOptions, Written};
use crate::placement::Placement;
use crate::port::{FrameCounts, OpenOptions, PortInfo};
use crate::session::viewed::Viewed;
use crate::stats::QueueStats;

/// How to capture. Each field has a setter of the same name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaptureConfig {
    /// The output; `None` only counts packets.
    pub output: Option<OutputConfig>,
    /// Ends waiting for the reader of the output.
    pub halt: Halt,
    /// All queues on one thread, instead of one thread per queue.
    pub single: bool,
    /// The CPUs of the receiving threads.
    pub placement: Placement,
    /// End after this many packets: the first ones of all queues, in order of time.
    pub packets: Option<u64>,
    /// Memory between the receiving threads and the writer, in bytes; allocated on demand.
    pub buffer: usize,
    /// Time between two statistics blocks in the file.
    pub statistics_every: Duration,
    /// Writes the packets of a file in order of time. Without it, the packets of a single file keep
    /// their order; several inputs are always in order of time.
    pub sort: bool,
    /// Writes each packet at once, instead of once a second or many at a time.
    pub prompt: bool,
    /// For immediate delivery from ports that hand over single packets: one thread receives from
    /// all queues, and so determines the first packet without delay.
    pub immediate: bool,
}

wirelane_wire::setters!(CaptureConfig:
    output: Option<OutputConfig>,
    halt: Halt,
    single: bool,
    placement: Placement,
    packets: Option<u64>,
    statistics_every: Duration,
    sort: bool,
    prompt: bool,
    immediate: bool;
    buffer: usize,
);

/// Bytes of a long packet: one that the kernel or the device has merged.
const LONG: usize = 64 << 10;

impl CaptureConfig {
    /// Whether the limit of packets is so low that starting threads costs more than receiving. Then
    /// one thread receives from all queues of a port.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.packets.is_some_and(|packets| packets <= OpenOptions::FEW)
    }

    /// Bytes of memory before the writer: enough for a short capture through `ends` receiving ends,
    /// between `least`, which is cheap, and the buffer.
    pub(super) fn most_before_writer(&self, ends: usize, least: usize) -> usize {
        let long = LONG.saturating_mul(ends);
        let of_all = |packets| usize::try_from(packets).unwrap_or(usize::MAX).saturating_mul(long);
        self.packets.map_or(usize::MAX, of_all).max(least).min(self.buffer)
    }
}

impl Default for CaptureConfig {
    fn default() -> Self {
        Self {
            output: None,
            halt: Halt::default(),
            single: false,
            placement: Placement::default(),
            packets: None,
            buffer: 256 << 20,
            statistics_every: Duration::from_secs(10),
            sort: false,
            prompt: false,
            immediate: false,
        }
    }
}

/// The output of a capture. The other fields have setters of the same name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutputConfig {
    /// The file, or `-` for standard output.
    pub path: PathBuf,
    /// Format, compression and rotation.
    pub options: WriterOptions,
    /// One file per queue and class, named by [`split_name`](crate::pcap::split_name).
    pub split: bool,
}

wirelane_wire::setters!(OutputConfig: options: WriterOptions, split: bool);

impl OutputConfig {
    /// One file; its suffix selects format and compression ([`WriterOptions::of_path`]).
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { options: WriterOptions::of_path(&path), path, split: false }
    }
}

/// The outcome of a capture.
#[derive(Debug)]
#[non_exhaustive]
pub struct CaptureOutcome {
    /// The ports, with notes added while they ran.
    pub ports: Vec<PortInfo>,
    /// The counters of every queue.
    pub queues: Vec<QueueStats>,
    /// The frames of all ports by place, after all threads had ended.
    pub frames: FrameCounts,
    /// Packets that are safely in files; `None` without output.
    pub written: Option<Written>,
    /// Packets that the view has received; `None` without a view.
    #[doc(hidden)]
    pub viewed: Option<Viewed>,
    /// Packets that were written after a younger packet.
    pub violations: u64,
    /// The bound within which order is guaranteed, in nanoseconds.
    pub lateness: u64,
    /// Errors, in order. The counters above are valid nevertheless.
    pub errors: Vec<Error>,
}
