//! The thread that joins parts and passes the flows to every sink.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wirelane::internal::threads;
use wirelane::{Error, Result};

use crate::fitting;
use crate::flow::Flow;
use crate::join::Joiner;
use crate::meter::{Meter, MeterConfig};
use crate::parts::{PartOrigin, TableReport};
use crate::sink::{Hurry, Sink};

/// The interval of [`Sink::tick`].
const TICK: Duration = Duration::from_millis(200);

/// The cause of the error that ends the other threads after a sink has failed.
pub(super) const UNWANTED: &str = "a sink has failed";

/// The number of flows that are sent to the sinks together, unless they wait too long.
pub(crate) const PARCEL: usize = 256;

/// Counts of exported and lost flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowCounts {
    /// Flows passed to the sinks.
    pub flows: u64,
    /// Packets in them.
    pub packets: u64,
    /// Flows dropped because the sinks were too slow.
    pub dropped: u64,
    /// Packets in them.
    pub dropped_packets: u64,
    /// Flows discarded because a sink had failed.
    pub refused: u64,
    /// Packets in them.
    pub refused_packets: u64,
}

#[derive(Default)]
struct CollectorStatus {
    flows: AtomicU64,
    packets: AtomicU64,
    dropped: AtomicU64,
    dropped_packets: AtomicU64,
    refused: AtomicU64,
    refused_packets: AtomicU64,
    failed: AtomicBool,
    /// Whether flows wait for the time of every table.
    awaits_time: AtomicBool,
}

/// A message to the collector thread: the number of a table and its report.
type Parcel = (usize, TableReport);

/// Messages of the collector thread to a table: the begin of records that the table has parts of.
#[derive(Default)]
pub(crate) struct Inbox {
    has_some: AtomicBool,
    origins: Mutex<Vec<PartOrigin>>,
}

/// Passes flows to sinks on a separate thread.
pub struct Collector {
    thread: JoinHandle<Option<Error>>,
    outbox: Outbox,
    inboxes: Vec<Arc<Inbox>>,
    /// Notifications of sinks that wait for a remote receiver.
    hurries: Vec<Hurry>,
}

/// The channel of a metering thread to the collector.
#[derive(Clone)]
pub(crate) struct Outbox {
    table: usize,
    parcels: SyncSender<Parcel>,
    shared: Arc<CollectorStatus>,
    /// Whether to wait for slow sinks instead of dropping flows.
    waits: bool,
}

impl Collector {
    /// Starts the thread for the flows of one table. With `waits`, the table waits for slow sinks.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(sinks: Vec<Box<dyn Sink>>, waits: bool) -> Result<Self> {
        Self::joining(sinks, 1, MeterConfig::default(), 0, waits)
    }

    /// Like [`Collector::start`], for several tables: joins the parts of a conversation, and holds
    /// at most `most` incomplete records.
    pub(crate) fn joining(
        sinks: Vec<Box<dyn Sink>>,
        tables: usize,
        config: MeterConfig,
        most: usize,
        waits: bool,
    ) -> Result<Self> {
        let (parcels, incoming) = sync_channel((fitting::waiting() / PARCEL).max(1));
        let hurries = sinks.iter().filter_map(|sink| sink.hurry()).collect();
        let shared = Arc::new(CollectorStatus::default());
        let joiner = (tables > 1).then(|| Joiner::new(config, tables, most));
        let inboxes: Vec<Arc<Inbox>> = (0..tables).map(|_| Arc::default()).collect();
        let giver = Giver {
            sinks,
            joiner,
            inboxes: inboxes.clone(),
            shared: Arc::clone(&shared),
            whole: Vec::new(),
        };
        let thread = threads::spawn("wl-flows", move || giver.run(&incoming))?;
        Ok(Self { thread, outbox: Outbox { table: 0, parcels, shared, waits }, inboxes, hurries })
    }

    /// The channel for the reports of this table.
    pub(crate) fn outbox(&self, table: usize) -> Outbox {
        Outbox { table, ..self.outbox.clone() }
    }

    /// The messages for this table.
    pub(crate) fn inbox(&self, table: usize) -> Arc<Inbox> {
        self.inboxes.get(table).map(Arc::clone).unwrap_or_default()
    }

    /// Takes the ended flows of a table, if there are enough for a parcel.
    pub fn take_from(&self, meter: &mut Meter) {
        if meter.ready() >= PARCEL {
            self.take_all_from(meter);
        }
    }

    /// Takes the ended flows of a table.
    pub(crate) fn take_all_from(&self, meter: &mut Meter) {
        if meter.ready() > 0 {
            let mut parts = TableReport { time: meter.now(), ..TableReport::default() };
            meter.take_parts(&mut parts);
            self.outbox.send(&mut parts);
        }
    }

    /// Notifies the sinks that no more packets are received. This starts their time limits.
    pub(super) fn hurry(&self) {
        self.hurries.iter().for_each(|hurry| hurry());
    }

    /// Ends all flows of a table and takes them.
    pub fn finish(&self, meter: &mut Meter) {
        self.hurry();
        self.outbox.finish(meter, TableReport::default());
    }

    /// The counts of flows so far.
    pub fn counts(&self) -> FlowCounts {
        self.outbox.counts()
    }

    /// Whether a sink has failed.
    pub fn has_failed(&self) -> bool {
        self.outbox.has_failed()
    }

    /// Returns an error once a sink has failed.
    ///
    /// # Errors
    /// The same as for [`Outbox::check`].
    pub(super) fn check(&self) -> Result<()> {
        self.outbox.check()
    }

    /// Passes the remaining flows to the sinks, after all outboxes are dropped.
    pub fn join(self) -> (FlowCounts, Option<Error>) {
        let Self { thread, outbox: Outbox { parcels, shared, .. }, .. } = self;
        drop(parcels);
        let error = thread.join().unwrap_or_else(|_| {
            Some(Error::failed("the thread that writes flows", "panicked: a defect"))
        });
        (counts(&shared), error)
    }
}

impl Inbox {
    /// Moves the messages into `origins`.
    pub(crate) fn take(&self, origins: &mut Vec<PartOrigin>) {
        if self.has_some.load(Ordering::Acquire) && self.has_some.swap(false, Ordering::AcqRel) {
            origins.append(&mut self.origins.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn put(&self, origin: PartOrigin) {
        self.origins.lock().unwrap_or_else(PoisonError::into_inner).push(origin);
        self.has_some.store(true, Ordering::Release);
    }
}

impl Outbox {
    /// Sends the report of a table. If there is no room, `parts` keeps a rest for the next call.
    pub(crate) fn send(&self, parts: &mut TableReport) {
        if let Some(left) = self.post(std::mem::take(parts), self.waits) {
            *parts = left;
        }
    }

    /// Ends all flows of a table and sends them, after the earlier reports. No more packets are
    /// received, so this waits for the sinks.
    pub(crate) fn finish(&self, meter: &mut Meter, mut parts: TableReport) {
        loop {
            let has_more = meter.finish(PARCEL);
            meter.take_parts(&mut parts);
            // The table sends nothing after its last flow.
            parts.time = if has_more { meter.now() } else { u64::MAX };
            self.post(std::mem::take(&mut parts), true);
            if !has_more {
                return;
            }
        }
    }

    /// Sends a report; returns a rest to send later if there was no room.
    fn post(&self, parts: TableReport, waits: bool) -> Option<TableReport> {
        let parcel = (self.table, parts);
        let lost = if waits {
            self.parcels.send(parcel).err().map(|error| error.0)
        } else {
            self.parcels.try_send(parcel).err().map(|error| match error {
                TrySendError::Full(parcel) | TrySendError::Disconnected(parcel) => parcel,
            })
        };
        let (_, mut parts) = lost?;
        self.shared.lose(&parts.flows);
        parts.lose_flows();
        Some(parts)
    }

    /// Whether the collector needs the time of a table even without parts.
    pub(super) fn awaits_time(&self) -> bool {
        self.shared.awaits_time.load(Ordering::Relaxed)
    }

    fn counts(&self) -> FlowCounts {
        counts(&self.shared)
    }

    fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Returns an error once a sink has failed.
    ///
    /// # Errors
    /// [`UNWANTED`]. The sink has reported its own error.
    pub(super) fn check(&self) -> Result<()> {
        match self.has_failed() {
            true => Err(Error::failed("flows", UNWANTED)),
            false => Ok(()),
        }
    }
}

fn counts(shared: &CollectorStatus) -> FlowCounts {
    FlowCounts {
        flows: shared.flows.load(Ordering::Relaxed),
        packets: shared.packets.load(Ordering::Relaxed),
        dropped: shared.dropped.load(Ordering::Relaxed),
        dropped_packets: shared.dropped_packets.load(Ordering::Relaxed),
        refused: shared.refused.load(Ordering::Relaxed),
        refused_packets: shared.refused_packets.load(Ordering::Relaxed),
    }
}

impl CollectorStatus {
    /// Counts flows that were dropped because the queue to the sinks was full.
    fn lose(&self, flows: &[Flow]) {
        self.dropped.fetch_add(flows.len() as u64, Ordering::Relaxed);
        let packets = flows.iter().map(Flow::packets).sum();
        self.dropped_packets.fetch_add(packets, Ordering::Relaxed);
    }

    /// Counts flows that were discarded after a sink failed.
    fn refuse(&self, flows: &[Flow]) {
        self.refused.fetch_add(flows.len() as u64, Ordering::Relaxed);
        let packets = flows.iter().map(Flow::packets).sum();
        self.refused_packets.fetch_add(packets, Ordering::Relaxed);
    }
}

struct Giver {
    sinks: Vec<Box<dyn Sink>>,
    joiner: Option<Joiner>,
    inboxes: Vec<Arc<Inbox>>,
    shared: Arc<CollectorStatus>,
    whole: Vec<Flow>,
}

impl Giver {
    fn run(mut self, incoming: &Receiver<Parcel>) -> Option<Error> {
        let mut failure = None;
        let mut next = Instant::now() + TICK;
        loop {
            let received = match self.sinks.iter().any(|sink| sink.needs_ticks()) {
                true => incoming.recv_timeout(next.saturating_duration_since(Instant::now())),
                // No sink needs ticks, so the thread sleeps until the next report.
                false => incoming.recv().map_err(RecvTimeoutError::from),
            };
            match received {
                Ok((table, parts)) => self.take(table, parts),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let given = self.give(failure.is_some());
            self.note(given, &mut failure);
            // Ticks are also due while flows arrive without a pause.
            if Instant::now() >= next {
                let ticked = self.sinks.iter_mut().try_for_each(|sink| sink.tick());
                self.note(ticked, &mut failure);
                next = Instant::now() + TICK;
            }
        }
        if let Some(joiner) = &mut self.joiner {
            joiner.finish(&mut self.whole);
        }
        let given = self.give(failure.is_some());
        self.note(given, &mut failure);
        for sink in &mut self.sinks {
            if let Err(error) = sink.finish() {
                failure.get_or_insert(error);
            }
        }
        failure
    }

    fn take(&mut self, table: usize, parts: TableReport) {
        let Some(joiner) = &mut self.joiner else {
            self.whole.extend(parts.flows);
            return;
        };
        joiner.take(table, parts, &mut self.whole);
        self.shared.awaits_time.store(joiner.holds_some(), Ordering::Relaxed);
        for (table, origin) in joiner.origins() {
            if let Some(inbox) = self.inboxes.get(table) {
                inbox.put(origin);
            }
        }
    }

    fn give(&mut self, failed: bool) -> Result<()> {
        if failed {
            self.shared.refuse(&self.whole);
            self.whole.clear();
            return Ok(());
        }
        let mut given = 0;
        let mut outcome = Ok(());
        for flow in &mut self.whole {
            flow.settle();
            outcome = self.sinks.iter_mut().try_for_each(|sink| sink.add(flow));
            if outcome.is_err() {
                break;
            }
            given += 1;
        }
        let (taken, lost) = self.whole.split_at(given);
        self.shared.flows.fetch_add(given as u64, Ordering::Relaxed);
        let packets = taken.iter().map(Flow::packets).sum();
        self.shared.packets.fetch_add(packets, Ordering::Relaxed);
        self.shared.refuse(lost);
        self.whole.clear();
        outcome
    }

    fn note(&self, outcome: Result<()>, failure: &mut Option<Error>) {
        if let Err(error) = outcome {
            failure.get_or_insert(error);
            self.shared.failed.store(true, Ordering::Relaxed);
        }
    }
}
