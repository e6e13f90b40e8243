//! What forwarding is asked for, and what it came to.

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
    /// How a packet's TX queue is chosen when there are disciplines. [`QueueSelection::Explicit`] is as
    /// without: by the position of the RX queue.
    pub choice: QueueSelection,
    /// End after this many packets were received, both ways together.
    pub packets: Option<u64>,
    /// The CPUs of the threads, in turn.
    pub placement: Placement,
    /// What to cut and merge at each port, by position: merged as soon as it is received, cut after a
    /// discipline and just before the TX rings. What was merged is cut for any port that does not take
    /// long frames, whatever its switches say. With [`ForwardConfig::packets`] nothing is kept waiting for
    /// others of its flow, and so less is merged.
    pub switches: Vec<Option<Arc<Switches>>>,
}

/// What forwarding came to.
#[derive(Debug)]
#[non_exhaustive]
pub struct ForwardOutcome {
    /// What the ports turned out to be, notes added while it ran included.
    pub ports: Vec<PortInfo>,
    /// The counters of every receiving end. Delivered is what a transmitting end has taken.
    pub queues: Vec<QueueStats>,
    /// The counters of every transmitting end.
    pub tx: Vec<TxStats>,
    /// What happened at the disciplines, if there are any, with the position of the port and the
    /// number of the TX queue.
    pub qdiscs: Vec<(usize, u16, QdiscStats)>,
    /// What was cut, with the position of the port and the number of the TX queue.
    pub gso: Vec<(usize, u16, SegmentStats)>,
    /// What was merged, with the position of the port and the number of the RX queue, or `None` for
    /// packets that are tied to no queue.
    pub gro: Vec<(usize, Option<u16>, CoalesceStats)>,
    /// Where the frames of all ports were when everything had ended.
    pub frames: FrameCounts,
    /// What went wrong, the first thing first. What is counted above happened nevertheless.
    pub errors: Vec<Error>,
}
