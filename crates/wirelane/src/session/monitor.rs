//! Reads the counters of a running session from any thread.
//!
//! Counters are plain stores of the threads that own them; a reader takes none of their locks and
//! delays no thread. So a reading is not one instant: each counter is at most a batch old, and a
//! packet may be in one counter and not yet in the next. When the session has ended, all agree.
//!
//! ```
//! use std::time::Duration;
//! use wirelane::session::capture::{Capture, CaptureConfig};
//! use wirelane::port::{self, OpenOptions};
//!
//! # fn main() -> wirelane::Result<()> {
//! let port = port::open(&"sim:2?count=1000".parse()?, &OpenOptions::default())?;
//! let capture = Capture::start(vec![port], &CaptureConfig::default())?;
//! let monitor = capture.monitor();
//! let reader = std::thread::spawn(move || monitor.read().queues.len());
//! while !capture.wait(Duration::from_secs(1)) {}
//! assert_eq!(reader.join().ok(), Some(2));
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use crate::pcap::Written;
use crate::port::{
    Accounting, DiscoveredInterfaces, FrameCounts, InterfaceTable, Port, PortInfo, Rx,
};
use crate::qdisc::{EgressGauge, QdiscStats};
use crate::segment::{CoalesceCounters, CoalesceStats, SegmentCounters, SegmentStats};
use crate::session::interfaces::counters;
use crate::session::viewed::Viewed;
use crate::stats::{QueueStats, RxCounters, TxCounters, TxStats};

/// Reads one session. It keeps no frame, queue or port alive.
#[derive(Clone, Default)]
pub struct Monitor {
    pub(crate) ports: Vec<PortInfo>,
    /// One per port.
    pub(crate) accounting: Vec<Accounting>,
    /// With the index of their port.
    pub(crate) rx: Vec<(usize, Arc<RxCounters>)>,
    /// Interfaces discovered at run time, with the index of their port.
    pub(crate) discovered: Vec<(usize, Arc<DiscoveredInterfaces>)>,
    /// Files that may describe interfaces after packets, with the index of their port.
    pub(crate) tables: Vec<(usize, Arc<InterfaceTable>)>,
    pub(crate) tx: Vec<(usize, Arc<TxCounters>)>,
    pub(crate) qdiscs: Vec<(usize, EgressGauge)>,
    /// With the index of their port and the number of their queue.
    pub(crate) segmenters: Vec<(usize, u16, Arc<SegmentCounters>)>,
    /// As above; without a queue number for packets without a queue.
    pub(crate) coalescers: Vec<(usize, Option<u16>, Arc<CoalesceCounters>)>,
    /// Packets in files, if there are any.
    pub(crate) written: Option<Arc<dyn Fn() -> Written + Send + Sync>>,
    /// Packets passed to a view, if there is one.
    pub(crate) viewed: Option<Arc<dyn Fn() -> Viewed + Send + Sync>>,
}

/// All counters of a session.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The counters of every receiving end. Delivered packets are packets taken by the consumer or
    /// a transmitting end.
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
    /// Packets that are safely in files; `None` without files.
    pub written: Option<Written>,
    /// Packets that a view has received; `None` without a view.
    #[doc(hidden)]
    pub viewed: Option<Viewed>,
}

impl Monitor {
    /// Reads a session that only receives, from these ports through these ends.
    #[doc(hidden)]
    pub fn of_receivers<'a, I: IntoIterator<Item = &'a Rx>>(
        ports: impl IntoIterator<Item = (&'a Port, I)>,
    ) -> Self {
        let mut all = Self::default();
        for (position, (port, inputs)) in ports.into_iter().enumerate() {
            all.ports.push(port.info().clone());
            all.accounting.push(port.accounting());
            let mut inputs = inputs.into_iter().peekable();
            let discovered = inputs.peek().and_then(|first| first.discovered());
            all.discovered.extend(discovered.map(|discovered| (position, Arc::clone(discovered))));
            let table = inputs.peek().and_then(|first| first.interface_table());
            all.tables.extend(table.map(|table| (position, Arc::clone(table))));
            let counters = inputs.flat_map(counters);
            all.rx.extend(counters.map(|counters| (position, counters)));
        }
        all
    }

    /// The same monitor with `written` for packets that are safely in files.
    #[doc(hidden)]
    #[must_use]
    pub fn writing(self, written: impl Fn() -> Written + Send + Sync + 'static) -> Self {
        Self { written: Some(Arc::new(written)), ..self }
    }

    /// The same monitor with `counts` for packets that a view has received.
    #[must_use]
    pub(crate) fn showing(self, counts: impl Fn() -> Viewed + Send + Sync + 'static) -> Self {
        Self { viewed: Some(Arc::new(counts)), ..self }
    }

    /// Reads a session that only sends through `port`, with these counters of its transmitting
    /// ends.
    #[doc(hidden)]
    pub fn of_sender(
        port: &Port,
        tx: impl IntoIterator<Item = Arc<TxCounters>>,
        segmenters: impl IntoIterator<Item = (u16, Arc<SegmentCounters>)>,
    ) -> Self {
        let segmenter = |(queue, counters)| (0, queue, counters);
        Self {
            ports: vec![port.info().clone()],
            accounting: vec![port.accounting()],
            tx: tx.into_iter().map(|counters| (0, counters)).collect(),
            segmenters: segmenters.into_iter().map(segmenter).collect(),
            ..Self::default()
        }
    }

    /// The ports.
    pub fn ports(&self) -> &[PortInfo] {
        &self.ports
    }

    /// All counters now.
    pub fn read(&self) -> Reading {
        let qdisc = |(port, gauge): &(usize, EgressGauge)| {
            gauge.stats().map(|stats| (*port, gauge.queue(), stats))
        };
        let segmented = |(port, queue, counters): &(usize, u16, Arc<SegmentCounters>)| {
            (*port, *queue, counters.snapshot())
        };
        let coalesced = |(port, queue, counters): &(usize, Option<u16>, Arc<CoalesceCounters>)| {
            (*port, *queue, counters.snapshot())
        };
        Reading {
            queues: self.queues(),
            tx: self.tx.iter().map(|(port, counters)| counters.snapshot(*port)).collect(),
            qdiscs: self.qdiscs.iter().filter_map(qdisc).collect(),
            gso: self.segmenters.iter().map(segmented).collect(),
            gro: self.coalescers.iter().map(coalesced).collect(),
            written: self.written(),
            viewed: self.viewed.as_ref().map(|viewed| viewed()),
        }
    }

    /// The counters of every receiving end now.
    pub fn queues(&self) -> Vec<QueueStats> {
        let fixed = self.rx.iter().map(|(port, counters)| counters.snapshot(*port));
        let found = self.discovered.iter().flat_map(|(port, all)| {
            all.counters().into_iter().map(|counters| counters.snapshot(*port))
        });
        let late = self.tables.iter().flat_map(|(port, table)| {
            table.late_counters().into_iter().map(|counters| counters.snapshot(*port))
        });
        fixed.chain(found).chain(late).collect()
    }

    /// The frames of each port by place, now.
    pub fn frames(&self) -> Vec<FrameCounts> {
        self.accounting.iter().map(Accounting::frames).collect()
    }

    /// Packets that are safely in files now; `None` without files.
    pub(crate) fn written(&self) -> Option<Written> {
        self.written.as_ref().map(|written| written())
    }
}
