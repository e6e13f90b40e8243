//! The configuration of a recording, and its outcome.

use std::time::Duration;

use wirelane::Error;
use wirelane::filter::Filter;
use wirelane::halt::Halt;
use wirelane::placement::Placement;
use wirelane::port::{FrameCounts, PortInfo};
use wirelane::stats::QueueStats;

use crate::{StoreOptions, StoreReport};

/// How to record. Each field has a setter of the same name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordConfig {
    /// How the store is written. `trigger` sets its pre-trigger.
    pub store: StoreOptions,
    /// Write only what a trigger asks for.
    pub trigger: Option<TriggerConfig>,
    /// All queues on one thread, instead of one thread per queue.
    pub single: bool,
    /// The CPUs of the receiving threads.
    pub placement: Placement,
    /// End after this number of packets: the first ones of all queues, in order of time; with a
    /// trigger, in the order in which the threads receive them.
    pub packets: Option<u64>,
    /// How often counters are written into the segments; also at the start of each, and at the end.
    pub statistics_every: Duration,
    /// Ends waiting for a disk that takes nothing.
    pub halt: Halt,
}

wirelane_wire::setters!(RecordConfig:
    store: StoreOptions,
    trigger: Option<TriggerConfig>,
    single: bool,
    placement: Placement,
    packets: Option<u64>,
    statistics_every: Duration,
    halt: Halt,
);

impl Default for RecordConfig {
    fn default() -> Self {
        Self {
            store: StoreOptions::default(),
            trigger: None,
            single: false,
            placement: Placement::default(),
            packets: None,
            statistics_every: Duration::from_secs(10),
            halt: Halt::default(),
        }
    }
}

/// The packets that are kept around a trigger. Each field has a setter of the same name.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TriggerConfig {
    /// Packets that trigger, in addition to [`Trigger::fire`](super::Trigger::fire).
    pub filter: Option<Filter>,
    /// The time before it. Memory holds these packets, as far as there is enough.
    pub before: Duration,
    /// The time after it.
    pub after: Duration,
}

wirelane_wire::setters!(TriggerConfig:
    filter: Option<Filter>,
    before: Duration,
    after: Duration,
);

/// The outcome of a recording.
#[derive(Debug)]
#[non_exhaustive]
pub struct RecordOutcome {
    /// The port, with notes added while it ran.
    pub port: PortInfo,
    /// The counters of every queue.
    pub queues: Vec<QueueStats>,
    /// Where the frames were when everything had ended.
    pub frames: FrameCounts,
    /// The report of the store.
    pub store: StoreReport,
    /// How often packets or others triggered; `None` without triggers.
    pub triggers: Option<u64>,
    /// Errors, the first one first. The counters above are valid nevertheless.
    pub errors: Vec<Error>,
}
