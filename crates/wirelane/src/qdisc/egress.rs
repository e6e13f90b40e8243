//! A discipline in front of one TX queue, and the producers' handles to it.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::bands::BANDS;
use super::bulk::Round;
use super::discipline::{ProducerState, Qdisc, bytes};
use super::fifo::{Fifo, QueueLimit};
use super::link::{LockedTx, Wire};
use super::lockless::Lockless;
use super::noqueue::Noqueue;
use super::spec::{QdiscKind, QdiscSpec};
use super::stats::{LaneCounters, QdiscStats, Sent};
use crate::error::Result;
use crate::frame::Batch;
use crate::port::Tx;
use crate::stats::TxCounters;
use crate::sync::lock;

/// One TX queue behind a discipline, for any number of producers.
///
/// Clones are the same queue. Every producing thread takes an [`EgressHandle`].
///
/// ```
/// use wirelane::internal::qdisc::Egress;
/// use wirelane::port::{self, OpenOptions};
/// use wirelane::qdisc::QdiscSpec;
/// use wirelane::{Batch, internal::clock};
///
/// # fn main() -> wirelane::Result<()> {
/// let options = OpenOptions::default().transmit(true);
/// let mut port = port::open(&"sim:1".parse()?, &options)?;
/// port.start()?;
/// let tx = port.tx()?.remove(0);
/// let egress = Egress::new(&"fifo,limit=500".parse()?, tx);
/// let mut handle = egress.handle();
/// let mut batch = Batch::default();
/// handle.allocate(&mut batch, 32);
/// for frame in batch.iter_mut() {
///     assert!(frame.set_len(64));
/// }
/// let sent = handle.send(&mut batch, clock::monotonic_ns());
/// assert_eq!((sent.accepted, sent.dropped, sent.refused), (32, 0, 0));
/// assert_eq!(handle.flush(clock::monotonic_ns())?, 0);
/// assert_eq!(egress.stats().lock_operations / 32, 6);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Egress(Arc<EgressQueue>);

pub(super) struct EgressQueue {
    spec: QdiscSpec,
    pub(super) qdisc: Box<dyn Qdisc>,
    link: LockedTx,
    lanes: Mutex<Vec<Arc<LaneCounters>>>,
}

impl Egress {
    /// Puts the discipline of `spec` in front of `tx`.
    pub fn new(spec: &QdiscSpec, tx: Tx) -> Self {
        let default =
            if spec.limit_bytes.is_some() { usize::MAX } else { QdiscSpec::LIMIT as usize };
        let limit = QueueLimit {
            packets: spec.limit_packets.map_or(default, |limit| limit as usize),
            bytes: spec.limit_bytes.unwrap_or(u64::MAX),
        };
        let qdisc: Box<dyn Qdisc> = match spec.kind {
            QdiscKind::Noqueue { round } => Box::new(Noqueue::new(round)),
            QdiscKind::Fifo => Box::new(Fifo::<1>::new(limit, Round::SINGLE, spec.batched)),
            QdiscKind::Bulk { round } => {
                let round = Round::new(round as usize, Round::BYTES);
                Box::new(Fifo::<1>::new(limit, round, spec.batched))
            }
            QdiscKind::PfifoFast { round } => {
                let round = Round::new(round as usize, Round::BYTES);
                Box::new(Fifo::<BANDS>::new(limit, round, spec.batched))
            }
            QdiscKind::Lockless { bypass } => {
                let limit = spec.limit_packets.unwrap_or(QdiscSpec::RING);
                Box::new(Lockless::new(limit as usize, bypass))
            }
        };
        Self::with(spec.clone(), qdisc, tx)
    }

    /// Puts a custom discipline in front of `tx`; `spec` is only for the statistics.
    pub(super) fn with(spec: QdiscSpec, qdisc: Box<dyn Qdisc>, tx: Tx) -> Self {
        let lanes = Mutex::new(Vec::new());
        let link = LockedTx::new(tx, &spec);
        Self(Arc::new(EgressQueue { spec, qdisc, link, lanes }))
    }

    /// A handle for one more producer. Not for the hot path: it allocates.
    pub fn handle(&self) -> EgressHandle {
        let counters = Arc::new(LaneCounters::default());
        let mut lanes = lock(&self.0.lanes);
        lanes.push(Arc::clone(&counters));
        let lane = ProducerState::new(counters, self.0.qdisc.input(), &self.0.spec);
        EgressHandle { shared: Arc::clone(&self.0), lane, not_sync: PhantomData }
    }

    /// Closes the queue: sends the frames of the TX ring, or counts them as errors. No producer may
    /// send after this.
    pub(super) fn close(&self) {
        self.handle().with_wire(&mut |wire| wire.tx().close());
    }

    /// The counters so far, over all producers.
    pub fn stats(&self) -> QdiscStats {
        let mut stats = QdiscStats { discipline: self.0.spec.to_string(), ..QdiscStats::default() };
        stats.read(&lock(&self.0.lanes));
        self.0.link.read(&mut stats);
        self.0.qdisc.read(&mut stats);
        stats
    }

    /// A reader of the queue that does not keep it alive.
    pub(crate) fn gauge(&self) -> EgressGauge {
        EgressGauge { queue: self.queue(), shared: Arc::downgrade(&self.0) }
    }

    /// The counters of the transmitting end: frames and bytes sent, errors.
    pub fn tx_counters(&self) -> &Arc<TxCounters> {
        self.0.link.counters()
    }

    /// The number of the TX queue.
    pub fn queue(&self) -> u16 {
        self.tx_counters().queue
    }

    /// The discipline, as the user wrote it.
    pub fn spec(&self) -> &QdiscSpec {
        &self.0.spec
    }
}

/// Reads an [`Egress`] from any thread while it exists.
#[derive(Clone)]
pub(crate) struct EgressGauge {
    queue: u16,
    shared: Weak<EgressQueue>,
}

impl EgressGauge {
    /// The number of the TX queue.
    pub(crate) fn queue(&self) -> u16 {
        self.queue
    }

    /// The counters so far, over all producers; `None` once the queue is gone.
    pub(crate) fn stats(&self) -> Option<QdiscStats> {
        self.shared.upgrade().map(|shared| Egress(shared).stats())
    }
}

/// One producer's end of an [`Egress`]. It may move to another thread, but only one can use it.
///
/// The last call of every handle is [`EgressHandle::flush`], repeated while frames wait in the
/// queue or in the TX ring ([`EgressHandle::pending`]): a producer does a bounded part of the
/// others' work; the rest waits for the next call of any handle.
pub struct EgressHandle {
    pub(super) shared: Arc<EgressQueue>,
    pub(super) lane: ProducerState,
    not_sync: PhantomData<std::cell::Cell<()>>,
}

impl EgressHandle {
    /// Sends the frames of `batch`, in order. Accepted frames are in the TX ring or in the queue.
    /// Frames over a limit of the queue are dropped, counted and returned to their owners. Refused
    /// frames stay in `batch`, because there is no queue and the TX ring is full, or because this
    /// producer has its share in flight. Never blocks on the interface.
    ///
    /// `now` is the monotonic time in nanoseconds (`clock::monotonic_ns`); any other
    /// monotonic clock works, too.
    #[inline]
    pub fn send(&mut self, batch: &mut Batch, now: u64) -> Sent {
        if batch.is_empty() {
            return Sent::default();
        }
        if self.lane.small.is_some() {
            return self.send_small(batch, now);
        }
        let EgressQueue { qdisc, link, .. } = &*self.shared;
        qdisc.send(&mut self.lane, link, batch, now)
    }

    /// Like [`EgressHandle::send`], within the limit of the small queue.
    fn send_small(&mut self, batch: &mut Batch, now: u64) -> Sent {
        let EgressQueue { qdisc, link, .. } = &*self.shared;
        let mut total = Sent::default();
        while !batch.is_empty() {
            let ProducerState { small: Some(small), part, .. } = &mut self.lane else { break };
            if let Some(progress) = link.progress() {
                small.settle(progress);
            }
            let admitted = small.admit(batch.iter().map(|frame| frame.len())).min(part.room());
            part.as_vec().extend(batch.drain(admitted));
            if part.is_empty() {
                self.lane.counters.refused.add(batch.len() as u64);
                break;
            }
            let mut part = std::mem::replace(part, Batch::new(0));
            let offered = bytes(&part);
            let sent = qdisc.send(&mut self.lane, link, &mut part, now);
            let went = offered - bytes(&part);
            let left = part.len();
            batch.put_back(0, &mut part);
            let position = qdisc.position(&self.lane);
            self.lane.part = part;
            if let Some(small) = &mut self.lane.small {
                small.went(went, position);
            }
            total += sent;
            if left > 0 {
                break;
            }
        }
        Sent { refused: batch.len(), ..total }
    }

    /// Bytes of this producer in queue and TX ring, as far as known; 0 without a small queue.
    pub fn held(&mut self) -> u64 {
        let ProducerState { small: Some(small), .. } = &mut self.lane else { return 0 };
        if let Some(progress) = self.shared.link.progress() {
            small.settle(progress);
        }
        small.held()
    }

    /// Runs the queue until it is empty or the TX ring is full, flushes the TX ring, and reclaims
    /// transmitted frames. Returns the number of frames in the queue.
    ///
    /// # Errors
    /// The interface was removed or the system refuses.
    pub fn flush(&mut self, now: u64) -> Result<usize> {
        let EgressQueue { qdisc, link, .. } = &*self.shared;
        qdisc.flush(&mut self.lane, link, now)?;
        Ok(qdisc.len())
    }

    /// Adds up to `n` empty frames of the port's own memory to `batch`, which can be transmitted
    /// without a copy; returns their number.
    pub fn allocate(&mut self, batch: &mut Batch, n: usize) -> usize {
        let mut taken = 0;
        self.with_wire(&mut |wire| taken = wire.tx().allocate(batch, n));
        taken
    }

    /// Waits until the TX ring has room, for at most `timeout`. No other producer can transmit
    /// during the wait.
    ///
    /// # Errors
    /// As [`EgressHandle::flush`].
    pub fn wait(&mut self, timeout: Duration) -> Result<()> {
        let mut result = Ok(());
        self.with_wire(&mut |wire| result = wire.tx().wait(timeout));
        result
    }

    /// Frames in the TX ring at the last flush of any producer. They may need another flush.
    pub fn pending(&self) -> usize {
        self.shared.link.pending()
    }

    fn with_wire(&mut self, act: &mut dyn FnMut(&mut Wire)) {
        self.shared.qdisc.with_wire(&mut self.lane, &self.shared.link, act);
    }

    /// Drops the frames in the queue: they return to their owners, and count as `purged`. Returns
    /// their number.
    pub fn purge(&mut self, now: u64) -> usize {
        let mut purged = 0;
        let mut batch = Batch::default();
        loop {
            let n = self.shared.qdisc.dequeue(&mut self.lane, &mut batch, Batch::DEFAULT, now);
            if n == 0 {
                return purged;
            }
            // `dequeue` counted them as sent.
            let bytes = bytes(&batch);
            let counters = &self.lane.counters;
            counters.dequeued.set(counters.dequeued.value() - n as u64);
            counters.dequeued_bytes.set(counters.dequeued_bytes.value() - bytes);
            counters.purged.add(n as u64);
            counters.purged_bytes.add(bytes);
            self.shared.link.handed(n);
            batch.clear();
            purged += n;
        }
    }

    /// The queue behind this handle.
    pub fn egress(&self) -> Egress {
        Egress(Arc::clone(&self.shared))
    }
}
