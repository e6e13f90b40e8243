//! The document of `wirelane stats`, schema `wirelane.stats/1`, similar to the summary.

use serde::Serialize;
use wirelane::internal::clock;
use wirelane::port::{FrameCounts, PortInfo};

use super::request::{MaskChange, PortOffload};
use super::subject::ControlledCommand;
use crate::output::store::{StoreSummary, StoreView};
use crate::output::summary::{Cpu, SummaryCounters};

/// A reading of a running command.
#[derive(Serialize)]
pub(super) struct Document {
    schema: &'static str,
    command: &'static str,
    version: &'static str,
    pid: u32,
    elapsed_s: f64,
    ports: Vec<PortEntry>,
    #[serde(flatten)]
    counts: SummaryCounters,
    frames: FrameEntry,
    cpu: Cpu,
    /// Of a recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreSummary>,
}

/// A port and its settings.
#[derive(Serialize)]
struct PortEntry {
    #[serde(flatten)]
    info: PortInfo,
    /// `None` if the port receives no packets.
    selected: Option<MaskChange>,
    /// `None` if GSO and GRO cannot be changed at the port.
    offload: Option<PortOffload>,
    frames: FrameEntry,
}

/// Where frames are. `free + fill + rx + held + tx + completion = pool`.
#[derive(Serialize)]
struct FrameEntry {
    #[serde(flatten)]
    counts: FrameCounts,
    /// Frames that the program has received and not yet returned.
    held: u64,
}

impl Document {
    pub(super) fn new(subject: &ControlledCommand) -> Self {
        let elapsed = subject.started.elapsed();
        let reading = subject.monitor.read();
        let receives = |position| reading.queues.iter().any(|queue| queue.port == position);
        let frames = subject.monitor.frames();
        let sum = frames.iter().copied().sum();
        let infos = subject.monitor.ports().iter().zip(frames).enumerate();
        let port = |(position, (info, frames)): (usize, (&PortInfo, FrameCounts))| PortEntry {
            info: info.clone(),
            selected: (subject.ports.get(position).filter(|_| receives(position)))
                .map(|port| port.selected(position)),
            offload: subject.ports.get(position).and_then(|port| port.offloading(position)),
            frames: FrameEntry::of(frames),
        };
        Self {
            schema: "wirelane.stats/1",
            command: subject.command,
            version: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            elapsed_s: elapsed.as_secs_f64(),
            ports: infos.map(port).collect(),
            counts: SummaryCounters::of(reading),
            frames: FrameEntry::of(sum),
            cpu: clock::process_cpu().into(),
            store: subject.store.as_ref().map(StoreView::read),
        }
    }
}

impl FrameEntry {
    fn of(counts: FrameCounts) -> Self {
        Self { counts, held: counts.held() }
    }
}
