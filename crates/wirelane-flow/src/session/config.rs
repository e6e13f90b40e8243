//! The configuration and the outcome of a metering.

use std::hash::{BuildHasher, RandomState};

use wirelane::Error;
use wirelane::placement::Placement;
use wirelane::port::{FrameCounts, PortInfo};
use wirelane::stats::QueueStats;

use super::collector::FlowCounts;
use crate::meter::{MeterConfig, MeterCounts};

/// The configuration of a metering. Each field has a setter of the same name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlowConfig {
    /// The timeouts of flows.
    pub meter: MeterConfig,
    /// The largest number of concurrent flows in all queues.
    pub max_flows: usize,
    /// Use one thread for all queues of a port, instead of one thread per queue.
    pub single: bool,
    /// The CPUs of the receiving threads.
    pub placement: Placement,
    /// End after this many packets: the first packets of all queues, in order of time.
    pub packets: Option<u64>,
    /// The seed of the hash, which makes collisions unpredictable for senders.
    pub seed: u64,
}

wirelane_wire::setters!(FlowConfig:
    meter: MeterConfig,
    single: bool,
    placement: Placement,
    packets: Option<u64>;
    max_flows: usize,
    seed: u64,
);

impl Default for FlowConfig {
    /// A million flows, and a random seed.
    fn default() -> Self {
        Self {
            meter: MeterConfig::default(),
            max_flows: 1_000_000,
            single: false,
            placement: Placement::default(),
            packets: None,
            seed: RandomState::new().hash_one(0),
        }
    }
}

/// The outcome of a metering.
#[derive(Debug)]
#[non_exhaustive]
pub struct FlowOutcome {
    /// The ports, including notes added at run time.
    pub ports: Vec<PortInfo>,
    /// The counters of every queue.
    pub queues: Vec<QueueStats>,
    /// The location of the frames at the end.
    pub frames: Vec<FrameCounts>,
    /// The counts of packets.
    pub metered: MeterCounts,
    /// The counts of flows.
    pub flows: FlowCounts,
    /// Errors in order. The counters above are valid even if there are errors.
    pub errors: Vec<Error>,
}
