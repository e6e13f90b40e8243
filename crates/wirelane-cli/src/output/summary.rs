//! The summary of a command: schema `wirelane.summary/1`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use wirelane::internal::clock::{self, CpuTime};
use wirelane::port::{FrameCounts, PortInfo};
use wirelane::qdisc::QdiscStats;
use wirelane::segment::{CoalesceStats, SegmentStats};
use wirelane::session::capture::{CaptureOutcome, OutputConfig};
use wirelane::session::count::CountOutcome;
use wirelane::session::forward::ForwardOutcome;
use wirelane::session::monitor::Reading;
use wirelane::stats::{QueueStats, TxStats};
use wirelane::{Error, ErrorKind};
use wirelane_flow::session::FlowOutcome;
use wirelane_send::SendOutcome;
use wirelane_store::record::RecordOutcome;

use super::counts::TableView;
pub(crate) use super::flows::{Export, FlowFigures};
use super::flows::{FlowSummary, PacketSummary};
use super::sent::SendSummary;
use super::store::StoreSummary;
use crate::remedies;

/// The JSON document.
#[derive(Serialize)]
pub(crate) struct Summary {
    schema: &'static str,
    pub(super) command: &'static str,
    version: &'static str,
    pub(super) elapsed_s: f64,
    pub(super) ports: Vec<PortInfo>,
    /// The notes that the ports had before the command ran.
    #[serde(skip)]
    pub(crate) notes_at_opening: Vec<String>,
    #[serde(flatten)]
    pub(super) counts: SummaryCounters,
    pub(super) frames: FrameSummary,
    pub(super) order: Option<OrderSummary>,
    /// Of a command that makes packets.
    #[serde(flatten)]
    pub(super) sent: Option<SendSummary>,
    /// Of a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) store: Option<StoreSummary>,
    /// Of metering.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) flows: Option<FlowSummary>,
    /// Of rows of packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) packets: Option<PacketSummary>,
    /// Of a count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tables: Option<Vec<TableView>>,
    pub(super) cpu: Cpu,
    pub(super) errors: Vec<String>,
    /// The reader of standard output has ended, so the rest of the packets was not written.
    #[serde(skip)]
    pub(super) reader_left: bool,
    /// Where packets were written.
    #[serde(skip)]
    pub(super) output: Option<OutputDescription>,
}

/// Where packets were written, for people.
pub(crate) struct OutputDescription {
    /// The path as given; `-` is standard output.
    pub(super) path: PathBuf,
    /// Whether each queue has a separate file.
    pub(super) split: bool,
    pub(super) rotates: bool,
    /// How many files the rotation keeps.
    pub(super) kept: Option<u32>,
}

impl From<&OutputConfig> for OutputDescription {
    fn from(output: &OutputConfig) -> Self {
        let rotation = &output.options.rotation;
        Self {
            path: output.path.clone(),
            split: output.split,
            rotates: rotation.is_active(),
            kept: rotation.max_files,
        }
    }
}

/// The counters: in a summary at the end, and in the statistics of a running command.
#[derive(Serialize)]
pub(crate) struct SummaryCounters {
    pub(super) queues: Vec<QueueStats>,
    /// Of a command that sends.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tx: Vec<TxStats>,
    /// Of a command that sends through disciplines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) qdiscs: Vec<Discipline>,
    /// Of a command that segments frames.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) gso: Vec<Segmented>,
    /// Of a command that merges packets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) gro: Vec<Coalesced>,
    pub(super) totals: SummaryTotals,
}

#[derive(Serialize)]
pub(super) struct Discipline {
    pub(super) port: usize,
    pub(super) queue: u16,
    #[serde(flatten)]
    pub(super) stats: QdiscStats,
}

#[derive(Serialize)]
pub(super) struct Segmented {
    pub(super) port: usize,
    pub(super) queue: u16,
    #[serde(flatten)]
    pub(super) stats: SegmentStats,
}

#[derive(Serialize)]
pub(super) struct Coalesced {
    pub(super) port: usize,
    /// `None` for packets that are tied to no queue.
    pub(super) queue: Option<u16>,
    #[serde(flatten)]
    pub(super) stats: CoalesceStats,
}

#[derive(Serialize)]
pub(super) struct SummaryTotals {
    pub(super) received: Option<u64>,
    /// Of those received, packets that were merged into the frames of others.
    pub(super) merged: u64,
    pub(super) filtered: Option<u64>,
    pub(super) delivered: u64,
    /// `None` if the command writes no packets.
    pub(super) written: Option<u64>,
    pub(super) written_bytes: Option<u64>,
    pub(super) files: Option<u64>,
    /// Packets that were printed, and packets that the printing thread skipped; `None` if the
    /// command does not print.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) printed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_printed: Option<u64>,
    pub(super) sent: u64,
    pub(super) dropped: Option<u64>,
}

#[derive(Serialize)]
pub(super) struct FrameSummary {
    pub(super) pool: u64,
    pub(super) free: u64,
    pub(super) leaked: u64,
}

#[derive(Serialize)]
pub(super) struct OrderSummary {
    pub(super) violations: u64,
    pub(super) lateness_ms: u64,
}

/// CPU time of the process.
#[derive(Serialize)]
pub(crate) struct Cpu {
    pub(super) user_s: f64,
    pub(super) system_s: f64,
}

impl From<CpuTime> for Cpu {
    fn from(cpu: CpuTime) -> Self {
        Self { user_s: cpu.user.as_secs_f64(), system_s: cpu.system.as_secs_f64() }
    }
}

impl SummaryCounters {
    /// Rows and totals of a reading.
    pub(crate) fn of(reading: Reading) -> Self {
        let Reading { queues, tx, qdiscs, gso, gro, written, viewed } = reading;
        let sum = |of: fn(&QueueStats) -> Option<u64>| queues.iter().map(of).sum::<Option<u64>>();
        let totals = SummaryTotals {
            received: sum(|queue| queue.received),
            merged: queues.iter().map(|queue| queue.merged).sum(),
            filtered: sum(QueueStats::filtered_here),
            delivered: queues.iter().map(|queue| queue.packets).sum(),
            written: written.map(|written| written.packets),
            written_bytes: written.map(|written| written.bytes),
            files: written.map(|written| written.files),
            printed: viewed.map(|viewed| viewed.shown),
            not_printed: viewed.map(|viewed| viewed.missed),
            sent: tx.iter().map(|tx| tx.packets).sum(),
            dropped: sum(|queue| queue.dropped.total()),
        };
        let discipline = |(port, queue, stats)| Discipline { port, queue, stats };
        let segmented = |(port, queue, stats)| Segmented { port, queue, stats };
        let coalesced = |(port, queue, stats)| Coalesced { port, queue, stats };
        Self {
            queues,
            tx,
            qdiscs: qdiscs.into_iter().map(discipline).collect(),
            gso: gso.into_iter().map(segmented).collect(),
            gro: gro.into_iter().map(coalesced).collect(),
            totals,
        }
    }
}

impl Summary {
    /// The result of a capture.
    pub(crate) fn of_capture(
        outcome: &CaptureOutcome,
        output: Option<&OutputConfig>,
        started: Instant,
    ) -> Self {
        let reading = Reading {
            queues: outcome.queues.clone(),
            viewed: outcome.viewed,
            ..Reading::default()
        };
        let mut summary = Self::new("capture", started, reading, outcome.frames);
        summary.ports.clone_from(&outcome.ports);
        summary.output = output.map(OutputDescription::from);
        if let Some(written) = outcome.written {
            let totals = &mut summary.counts.totals;
            totals.written = Some(written.packets);
            totals.written_bytes = Some(written.bytes);
            totals.files = Some(written.files);
            let lateness_ms = outcome.lateness / 1_000_000;
            summary.order = Some(OrderSummary { violations: outcome.violations, lateness_ms });
        }
        summary
    }

    /// The result of a recording into `directory`.
    pub(crate) fn of_record(outcome: &RecordOutcome, directory: &Path, started: Instant) -> Self {
        let reading = Reading { queues: outcome.queues.clone(), ..Reading::default() };
        let mut summary = Self::new("record", started, reading, outcome.frames);
        let store = StoreSummary::of(outcome, directory);
        summary.ports.push(outcome.port.clone());
        let totals = &mut summary.counts.totals;
        totals.written = Some(store.packets);
        totals.written_bytes = Some(store.bytes);
        totals.files = Some(store.segments.into());
        summary.store = Some(store);
        summary
    }

    /// The result of counting.
    pub(crate) fn of_count(
        outcome: &CountOutcome,
        tables: Vec<TableView>,
        started: Instant,
    ) -> Self {
        let reading = Reading { queues: outcome.queues.clone(), ..Reading::default() };
        let mut summary = Self::new("count", started, reading, outcome.frames);
        summary.ports.clone_from(&outcome.ports);
        summary.tables = Some(tables);
        summary
    }

    /// The result of forwarding.
    pub(crate) fn of_forward(outcome: &ForwardOutcome, started: Instant) -> Self {
        let reading = Reading {
            queues: outcome.queues.clone(),
            tx: outcome.tx.clone(),
            qdiscs: outcome.qdiscs.clone(),
            gso: outcome.gso.clone(),
            gro: outcome.gro.clone(),
            ..Reading::default()
        };
        let mut summary = Self::new("forward", started, reading, outcome.frames);
        summary.ports.clone_from(&outcome.ports);
        summary
    }

    /// The result of sending.
    pub(crate) fn of_send(outcome: &SendOutcome, refusal: Option<&str>, started: Instant) -> Self {
        let gso = outcome.gso.iter().map(|(queue, stats)| (0, *queue, stats.clone()));
        let reading = Reading { tx: outcome.tx.clone(), gso: gso.collect(), ..Reading::default() };
        let mut summary = Self::new("send", started, reading, outcome.frames);
        summary.ports.push(outcome.port.clone());
        summary.sent = Some(SendSummary::new(outcome, refusal));
        summary
    }

    /// The result of metering ports.
    pub(crate) fn of_flows(outcome: &FlowOutcome, started: Instant) -> Self {
        let reading = Reading { queues: outcome.queues.clone(), ..Reading::default() };
        let frames = outcome.frames.iter().copied().sum();
        let mut summary = Self::new("flows", started, reading, frames);
        summary.ports.clone_from(&outcome.ports);
        let figures = FlowFigures { metered: outcome.metered, flows: outcome.flows };
        summary.flows = Some(FlowSummary::new(figures, Vec::new()));
        summary
    }

    /// The result of metering stores, which had this many packets and bytes.
    pub(crate) fn of_stored_flows(
        stores: &[PathBuf],
        (packets, bytes): (u64, u64),
        figures: FlowFigures,
        started: Instant,
    ) -> Self {
        let reading =
            Reading { queues: vec![QueueStats::delivered(packets, bytes)], ..Reading::default() };
        let mut summary = Self::new("flows", started, reading, FrameCounts::default());
        let stores = stores.iter().map(|path| path.display().to_string()).collect();
        summary.flows = Some(FlowSummary::new(figures, stores));
        summary
    }

    /// The result of exporting packets of ports.
    pub(crate) fn of_packets(outcome: &CaptureOutcome, export: Export, started: Instant) -> Self {
        let reading = Reading { queues: outcome.queues.clone(), ..Reading::default() };
        let mut summary = Self::new("flows", started, reading, outcome.frames);
        summary.ports.clone_from(&outcome.ports);
        let lateness_ms = outcome.lateness / 1_000_000;
        summary.order = Some(OrderSummary { violations: outcome.violations, lateness_ms });
        summary.packets = Some(PacketSummary::new(Vec::new(), export));
        summary
    }

    /// The result of exporting packets of stores, or of a file that the program has read.
    pub(crate) fn of_stored_packets(
        sources: &[PathBuf],
        bytes: Option<u64>,
        export: Export,
        started: Instant,
    ) -> Self {
        let mut all = QueueStats::delivered(export.all_packets(), bytes.unwrap_or(0));
        all.bytes = bytes;
        let reading = Reading { queues: vec![all], ..Reading::default() };
        let mut summary = Self::new("flows", started, reading, FrameCounts::default());
        let sources = sources.iter().map(|path| path.display().to_string()).collect();
        summary.packets = Some(PacketSummary::new(sources, export));
        summary
    }

    /// Adds the errors, in words. A closed reader of the output is a clean end.
    pub(crate) fn complete(&mut self, errors: &[Error]) {
        let (left, failed): (Vec<_>, Vec<_>) =
            errors.iter().partition(|error| error.kind() == ErrorKind::BrokenPipe);
        self.reader_left = !left.is_empty();
        self.errors = failed.into_iter().map(remedies::text).collect();
    }

    /// Adds the results of exports.
    pub(crate) fn with_exports(mut self, exports: Vec<Export>) -> Self {
        if let Some(flows) = &mut self.flows {
            flows.exports = exports;
        }
        self
    }

    /// The parts that all summaries have.
    fn new(command: &'static str, started: Instant, reading: Reading, frames: FrameCounts) -> Self {
        Self {
            schema: "wirelane.summary/1",
            command,
            version: env!("CARGO_PKG_VERSION"),
            elapsed_s: started.elapsed().as_secs_f64(),
            ports: Vec::new(),
            notes_at_opening: Vec::new(),
            counts: SummaryCounters::of(reading),
            frames: FrameSummary {
                pool: frames.pool,
                free: frames.free + frames.fill,
                leaked: frames.held(),
            },
            order: None,
            sent: None,
            store: None,
            flows: None,
            packets: None,
            tables: None,
            cpu: clock::process_cpu().into(),
            errors: Vec::new(),
            reader_left: false,
            output: None,
        }
    }
}
