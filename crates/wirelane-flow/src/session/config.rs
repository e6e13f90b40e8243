//! How to meter, and what came of it.

use wirelane::Error;
use wirelane::placement::Placement;
use wirelane::port::{FrameCounts, PortInfo};
use wirelane::stats::QueueStats;

use super::collector::FlowCounts;
use crate::meter::{MeterConfig, MeterCounts};

/// How to meter.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// When flows end.
    pub meter: MeterConfig,
    /// Most flows at one time, in all queues together.
    pub max_flows: usize,
    /// All queues on one thread, instead of one thread per queue.
    pub single: bool,
    /// The CPUs of the receiving threads.
    pub placement: Placement,
    /// End after this many packets: the first ones of all queues, in order of time.
    pub packets: Option<u64>,
    /// Makes the choice of places in tables unpredictable for senders.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct FlowOutcome {
    /// The ports, with notes added while they ran.
    pub ports: Vec<PortInfo>,
    /// The counters of every queue.
    pub queues: Vec<QueueStats>,
    /// Where the frames were when everything had ended.
    pub frames: Vec<FrameCounts>,
    /// What became of packets.
    pub metered: MeterCounts,
    /// What became of flows.
    pub flows: FlowCounts,
    /// Errors, the first one first. The counters above are valid nevertheless.
    pub errors: Vec<Error>,
}
