//! The configuration of forwarding, and its outcome.

use std::sync::Arc;

use crate::error::Error;
use crate::placement::Placement;
use crate::port::{FrameCounts, PortInfo, Switches};
use crate::qdisc::{QdiscSpec, QdiscStats, QueueSelection};
use crate::segment::{CoalesceStats, SegmentStats};
use crate::stats::{QueueStats, TxStats};

/// How to forward. Each field has a setter of the same name.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ForwardConfig {
    /// Only from the first port to the second.
    pub one_way: bool,
    /// Swap the Ethernet addresses also between two ports.
    pub swap: bool,
    /// A discipline in front of every TX queue. Its limits drop packets of any source.
    pub qdisc: Option<QdiscSpec>,
    /// How disciplines select a packet's TX queue. [`QueueSelection::Explicit`] works as without
    /// disciplines: by the index of the RX queue.
    pub choice: QueueSelection,
    /// End after this many packets were received, in both directions together.
    pub packets: Option<u64>,
    /// The CPUs of the threads, in turn.
    pub placement: Placement,
    /// Protocols to segment and merge at each port, by index. Packets are merged right after they
    /// are received, and segmented after a discipline, just before the TX rings. Merged frames are
    /// segmented for any port that does not accept long frames, independent of its switches. With
    /// [`ForwardConfig::packets`] no packet waits for others of its flow, so fewer are merged.
    #[doc(hidden)]
    pub switches: Vec<Option<Arc<Switches>>>,
}

wirelane_wire::setters!(ForwardConfig:
    one_way: bool,
    swap: bool,
    qdisc: Option<QdiscSpec>,
    choice: QueueSelection,
    packets: Option<u64>,
    placement: Placement,
);

impl ForwardConfig {
    /// Sets [`switches`](field@Self::switches).
    #[doc(hidden)]
    #[must_use]
    pub fn switches(self, switches: Vec<Option<Arc<Switches>>>) -> Self {
        Self { switches, ..self }
    }
}

/// The outcome of forwarding.
#[derive(Debug)]
#[non_exhaustive]
pub struct ForwardOutcome {
    /// The ports, with notes added while they ran.
    pub ports: Vec<PortInfo>,
    /// The counters of every receiving end. Delivered packets are packets taken by a transmitting
    /// end.
    pub queues: Vec<QueueStats>,
    /// The counters of every transmitting end.
    pub tx: Vec<TxStats>,
    /// The statistics of the disciplines, if any, with the index of the port and the number of the
    /// TX queue.
    pub qdiscs: Vec<(usize, u16, QdiscStats)>,
    /// Segmentation statistics, with the index of the port and the number of the TX queue.
    pub gso: Vec<(usize, u16, SegmentStats)>,
    /// Merging statistics, with the index of the port and the number of the RX queue, or `None` for
    /// packets without a queue.
    pub gro: Vec<(usize, Option<u16>, CoalesceStats)>,
    /// The frames of all ports by place, after all threads had ended.
    pub frames: FrameCounts,
    /// Errors, in order. The counters above are valid nevertheless.
    pub errors: Vec<Error>,
}
