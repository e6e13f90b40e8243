//! The thread that joins parts and gives the flows to every sink.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wirelane::{Error, Result, threads};

use crate::fitting;
use crate::flow::Flow;
use crate::join::Joiner;
use crate::meter::{Meter, MeterConfig};
use crate::parts::{Origin, Parts};
use crate::sink::{Hurry, Sink};

/// How often sinks may do what waits.
const TICK: Duration = Duration::from_millis(200);

/// The cause of an error that only says that a sink has failed.
pub(super) const UNWANTED: &str = "nobody takes them any more";

/// Flows that go to the sinks together, unless time presses.
pub(crate) const PARCEL: usize = 256;

/// What became of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowCounts {
    /// Flows that the sinks got.
    pub flows: u64,
    /// Packets in them.
    pub packets: u64,
    /// Flows that were dropped because the sinks were too slow.
    pub dropped: u64,
    /// Packets in them.
    pub dropped_packets: u64,
    /// Flows that came after a sink had failed.
    pub refused: u64,
    /// Packets in them.
    pub refused_packets: u64,
}

#[derive(Default)]
struct Shared {
    flows: AtomicU64,
    packets: AtomicU64,
    dropped: AtomicU64,
    dropped_packets: AtomicU64,
    refused: AtomicU64,
    refused_packets: AtomicU64,
    failed: AtomicBool,
    /// Flows wait for the time of every table.
    awaits_time: AtomicBool,
}

/// A message to the thread: the number of a table and its report.
type Parcel = (usize, Parts);

/// Messages of the thread to a table: the begin of the records that the table has parts of.
#[derive(Default)]
pub(crate) struct Inbox {
    has_some: AtomicBool,
    origins: Mutex<Vec<Origin>>,
}

/// Gives flows to sinks, on a separate thread.
pub struct Collector {
    thread: JoinHandle<Option<Error>>,
    outbox: Outbox,
    inboxes: Vec<Arc<Inbox>>,
    /// Of sinks that wait for others.
    hurries: Vec<Hurry>,
}

/// Where a thread puts flows that have ended.
#[derive(Clone)]
pub(crate) struct Outbox {
    table: usize,
    parcels: SyncSender<Parcel>,
    shared: Arc<Shared>,
    /// Waits for the sinks instead of dropping flows.
    waits: bool,
}

impl Collector {
    /// Starts the thread, for flows of one table. `waits`: the table waits for sinks that are slow.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(sinks: Vec<Box<dyn Sink>>, waits: bool) -> Result<Self> {
        Self::joining(sinks, 1, MeterConfig::default(), 0, waits)
    }

    /// As [`Collector::start`], for several tables: it joins the parts of a conversation, and holds
    /// at most `most` records for that.
    pub(crate) fn joining(
        sinks: Vec<Box<dyn Sink>>,
        tables: usize,
        config: MeterConfig,
        most: usize,
        waits: bool,
    ) -> Result<Self> {
        let (parcels, incoming) = sync_channel((fitting::waiting() / PARCEL).max(1));
        let hurries = sinks.iter().filter_map(|sink| sink.hurry()).collect();
        let shared = Arc::new(Shared::default());
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

    /// The way for the reports of the table of this number.
    pub(crate) fn outbox(&self, table: usize) -> Outbox {
        Outbox { table, ..self.outbox.clone() }
    }

    /// The messages for the table of this number.
    pub(crate) fn inbox(&self, table: usize) -> Arc<Inbox> {
        self.inboxes.get(table).map(Arc::clone).unwrap_or_default()
    }

    /// Takes the flows of a table that have ended, if they are enough to be worth it.
    pub fn take_from(&self, meter: &mut Meter) {
        if meter.ready() >= PARCEL {
            self.take_all_from(meter);
        }
    }

    /// Takes the flows of a table that have ended.
    pub(crate) fn take_all_from(&self, meter: &mut Meter) {
        if meter.ready() > 0 {
            let mut parts = Parts { time: meter.now(), ..Parts::default() };
            meter.take_parts(&mut parts);
            self.outbox.send(&mut parts);
        }
    }

    /// No more packets are received: the time begins for which sinks wait for others.
    pub(super) fn hurry(&self) {
        self.hurries.iter().for_each(|hurry| hurry());
    }

    /// Ends all flows of a table, and takes them.
    pub fn finish(&self, meter: &mut Meter) {
        self.hurry();
        self.outbox.finish(meter, Parts::default());
    }

    /// What became of flows so far.
    pub fn counts(&self) -> FlowCounts {
        self.outbox.counts()
    }

    /// Whether a sink has failed.
    pub fn has_failed(&self) -> bool {
        self.outbox.has_failed()
    }

    /// Refuses to go on once a sink has failed.
    ///
    /// # Errors
    /// As [`Outbox::check`].
    pub(super) fn check(&self) -> Result<()> {
        self.outbox.check()
    }

    /// Gives the rest away, once all outboxes are gone.
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
    pub(crate) fn take(&self, origins: &mut Vec<Origin>) {
        if self.has_some.load(Ordering::Acquire) && self.has_some.swap(false, Ordering::AcqRel) {
            origins.append(&mut self.origins.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn put(&self, origin: Origin) {
        self.origins.lock().unwrap_or_else(PoisonError::into_inner).push(origin);
        self.has_some.store(true, Ordering::Release);
    }
}

impl Outbox {
    /// Sends the report of a table. If there is no room, `parts` keeps a rest for the next call.
    pub(crate) fn send(&self, parts: &mut Parts) {
        if let Some(left) = self.post(std::mem::take(parts), self.waits) {
            *parts = left;
        }
    }

    /// Ends all flows of a table and sends them, after the earlier reports. No more packets are
    /// received, so this waits for the sinks.
    pub(crate) fn finish(&self, meter: &mut Meter, mut parts: Parts) {
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
    fn post(&self, parts: Parts, waits: bool) -> Option<Parts> {
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

    /// Whether a report without parts is of use, too.
    pub(super) fn awaits_time(&self) -> bool {
        self.shared.awaits_time.load(Ordering::Relaxed)
    }

    fn counts(&self) -> FlowCounts {
        counts(&self.shared)
    }

    fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Refuses to go on once a sink has failed.
    ///
    /// # Errors
    /// [`UNWANTED`]; the sink has reported its error before.
    pub(super) fn check(&self) -> Result<()> {
        match self.has_failed() {
            true => Err(Error::failed("flows", UNWANTED)),
            false => Ok(()),
        }
    }
}

fn counts(shared: &Shared) -> FlowCounts {
    FlowCounts {
        flows: shared.flows.load(Ordering::Relaxed),
        packets: shared.packets.load(Ordering::Relaxed),
        dropped: shared.dropped.load(Ordering::Relaxed),
        dropped_packets: shared.dropped_packets.load(Ordering::Relaxed),
        refused: shared.refused.load(Ordering::Relaxed),
        refused_packets: shared.refused_packets.load(Ordering::Relaxed),
    }
}

impl Shared {
    /// Counts flows that found no room on their way to the sinks.
    fn lose(&self, flows: &[Flow]) {
        self.dropped.fetch_add(flows.len() as u64, Ordering::Relaxed);
        let packets = flows.iter().map(Flow::packets).sum();
        self.dropped_packets.fetch_add(packets, Ordering::Relaxed);
    }

    /// Counts flows that a sink did not take.
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
    shared: Arc<Shared>,
    whole: Vec<Flow>,
}

impl Giver {
    fn run(mut self, incoming: &Receiver<Parcel>) -> Option<Error> {
        let mut failure = None;
        let mut next = Instant::now() + TICK;
        loop {
            let received = match self.sinks.iter().any(|sink| sink.needs_ticks()) {
                true => incoming.recv_timeout(next.saturating_duration_since(Instant::now())),
                // A tick would only wake the CPU.
                false => incoming.recv().map_err(RecvTimeoutError::from),
            };
            match received {
                Ok((table, parts)) => self.take(table, parts),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let given = self.give(failure.is_some());
            self.note(given, &mut failure);
            // Also while flows arrive without a pause.
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

    fn take(&mut self, table: usize, parts: Parts) {
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
