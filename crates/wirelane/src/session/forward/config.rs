//! The configuration of forwarding, and its outcome.

use std::sync::Arc;

use crate::error::Error;
use crate::placement::Placement;
use crate::port::{FrameCounts, PortInfo, Switches};
use crate::qdisc::{QdiscSpec, QdiscStats, QueueSelection};
use crate::segment::{CoalesceStats, SegmentStats};
use crate::stats::{QueueStats, TxStats};

/// How to forward.
#[derive(Clone, Debug, Default)]
pub struct ForwardConfig {
    /// Only from the first port to the second.
    pub one_way: bool,
    /// Swap the Ethernet addresses between two ports, too.
    pub swap: bool,
    /// A discipline in front of every TX queue. Its limits drop packets of any source.
    pub qdisc: Option<QdiscSpec>,
    /// How disciplines select a packet's TX queue. [`QueueSelection::Explicit`] works as without
    /// disciplines: by the position of the RX queue.
    pub choice: QueueSelection,
    /// End after this many packets were received, both ways together.
    pub packets: Option<u64>,
    /// The CPUs of the threads, in turn.
    pub placement: Placement,
    /// What to cut and merge at each port, by position. Packets are merged as soon as they are
    /// received, and cut after a discipline, just before the TX rings. Merged frames are cut for
    /// any port that does not take long frames, whatever its switches say. With
    /// [`ForwardConfig::packets`] no packet waits for others of its flow, so less is merged.
    pub switches: Vec<Option<Arc<Switches>>>,
}

/// The outcome of forwarding.
#[derive(Debug)]
#[non_exhaustive]
pub struct ForwardOutcome {
    /// What the ports turned out to be, notes added while it ran included.
    pub ports: Vec<PortInfo>,
    /// The counters of every receiving end. Delivered packets are those taken by a transmitting
    /// end.
    pub queues: Vec<QueueStats>,
    /// The counters of every transmitting end.
    pub tx: Vec<TxStats>,
    /// The statistics of the disciplines, if any, with the position of the port and the number of
    /// the TX queue.
    pub qdiscs: Vec<(usize, u16, QdiscStats)>,
    /// What was cut, with the position of the port and the number of the TX queue.
    pub gso: Vec<(usize, u16, SegmentStats)>,
    /// What was merged, with the position of the port and the number of the RX queue, or `None` for
    /// packets that are tied to no queue.
    pub gro: Vec<(usize, Option<u16>, CoalesceStats)>,
    /// Where the frames of all ports were when everything had ended.
    pub frames: FrameCounts,
    /// Errors, the first one first. The counters above are valid nevertheless.
    pub errors: Vec<Error>,
}
