//! The thread that gives flows away: halves are joined, then every sink gets them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use wirelane::{Error, Result, threads};

use crate::flow::Flow;
use crate::join::Joiner;
use crate::meter::Meter;
use crate::sink::Sink;

/// How often sinks may do what waits.
const TICK: Duration = Duration::from_millis(200);
/// Batches of flows that may wait for the sinks, each of some hundred flows.
const WAITING: usize = 256;

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
}

/// What goes to the thread: flows, and the time of the packets of the table that they are from.
type Parcel = (Vec<Flow>, u64);

/// Gives flows to sinks, on a thread of its own.
pub struct Collector {
    thread: JoinHandle<Option<Error>>,
    outbox: Outbox,
}

/// Where a thread puts flows that have ended.
#[derive(Clone)]
pub(crate) struct Outbox {
    parcels: SyncSender<Parcel>,
    shared: Arc<Shared>,
    /// Waits for the sinks instead of dropping flows.
    waits: bool,
}

impl Collector {
    /// Starts the thread. Of several tables, halves are joined that end within `patience` ns of
    /// each other; at most `most` wait for that. `waits`: tables wait for sinks that are slow.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        sinks: Vec<Box<dyn Sink>>,
        tables: usize,
        patience: u64,
        most: usize,
        waits: bool,
    ) -> Result<Self> {
        let (parcels, incoming) = sync_channel(WAITING);
        let shared = Arc::new(Shared::default());
        let joiner = (tables > 1).then(|| Joiner::new(patience, most));
        let worker = Giver { sinks, joiner, shared: Arc::clone(&shared), whole: Vec::new() };
        let thread = threads::spawn("wl-flows", move || worker.run(&incoming))?;
        Ok(Self { thread, outbox: Outbox { parcels, shared, waits } })
    }

    pub(crate) fn outbox(&self) -> Outbox {
        self.outbox.clone()
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
            let mut flows = Vec::with_capacity(meter.ready());
            meter.take(&mut flows);
            self.outbox.send(&mut flows, meter.now());
        }
    }

    /// Ends all flows of a table, and takes them.
    pub fn finish(&self, meter: &mut Meter) {
        self.outbox.finish(meter);
    }

    /// What became of flows so far.
    pub fn counts(&self) -> FlowCounts {
        self.outbox.counts()
    }

    /// Whether a sink has failed.
    pub fn has_failed(&self) -> bool {
        self.outbox.has_failed()
    }

    /// Gives the rest away, once all outboxes are gone.
    pub fn join(self) -> (FlowCounts, Option<Error>) {
        let Self { thread, outbox: Outbox { parcels, shared, .. } } = self;
        drop(parcels);
        let error = thread.join().unwrap_or_else(|_| {
            Some(Error::failed("the thread that writes flows", "panicked: a defect"))
        });
        (counts(&shared), error)
    }
}

impl Outbox {
    /// Sends flows, which are then gone from there. `time` is that of the newest packet.
    pub(crate) fn send(&self, flows: &mut Vec<Flow>, time: u64) {
        self.post(std::mem::take(flows), time, self.waits);
    }

    /// Ends all flows of a table, and sends them. Nobody waits for packets any more, so this waits
    /// for the sinks.
    pub(crate) fn finish(&self, meter: &mut Meter) {
        loop {
            let has_more = meter.finish(PARCEL);
            let mut flows = Vec::with_capacity(meter.ready());
            meter.take(&mut flows);
            self.post(flows, meter.now(), true);
            if !has_more {
                return;
            }
        }
    }

    fn post(&self, flows: Vec<Flow>, time: u64, waits: bool) {
        let parcel = (flows, time);
        let lost = if waits {
            self.parcels.send(parcel).err().map(|error| error.0)
        } else {
            self.parcels.try_send(parcel).err().map(|error| match error {
                TrySendError::Full(parcel) | TrySendError::Disconnected(parcel) => parcel,
            })
        };
        if let Some((lost, _)) = lost {
            self.shared.lose(&lost);
        }
    }

    fn counts(&self) -> FlowCounts {
        counts(&self.shared)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.shared.failed.load(Ordering::Relaxed)
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
    shared: Arc<Shared>,
    whole: Vec<Flow>,
}

impl Giver {
    fn run(mut self, incoming: &Receiver<Parcel>) -> Option<Error> {
        let mut now = 0;
        let mut failure = None;
        loop {
            match incoming.recv_timeout(TICK) {
                Ok((flows, time)) => {
                    now = now.max(time);
                    self.take(flows, now);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let ticked = self.sinks.iter_mut().try_for_each(|sink| sink.tick());
                    self.note(ticked, &mut failure);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let given = self.give(failure.is_some());
            self.note(given, &mut failure);
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

    fn take(&mut self, flows: Vec<Flow>, now: u64) {
        let Some(joiner) = &mut self.joiner else {
            self.whole.extend(flows);
            return;
        };
        for flow in flows {
            joiner.add(flow, now, &mut self.whole);
        }
        joiner.tick(now, &mut self.whole);
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
