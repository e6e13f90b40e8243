//! The packet consumer of one receiving thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use wirelane::error::Result;
use wirelane::frame::{Batch, Frame};
use wirelane::pipeline::Consumer;
use wirelane::port::Rx;
use wirelane_gen::Signature;
use wirelane_gen::signature::SignatureKey;

use super::clocks::Clocks;
use super::record::ThreadRecord;
use super::seen::{Expectation, SeenPackets};

/// The interval at which an idle thread checks whether the trial is over.
const PATIENCE: Duration = Duration::from_millis(10);

/// The data of one trial that the receiving threads need.
pub(super) struct TrialParameters {
    key: SignatureKey,
    earlier: Option<SignatureKey>,
    seen: SeenPackets,
}

impl TrialParameters {
    pub(super) fn new(expected: &Expectation, earlier: Option<SignatureKey>) -> Self {
        Self { key: expected.key, earlier, seen: SeenPackets::new(expected) }
    }
}

/// State shared by the receiving threads and the [`SignedReceiver`](super::SignedReceiver).
#[derive(Default)]
pub(super) struct ListenerState {
    /// Changes with the trial. Threads read it once per batch.
    version: AtomicU64,
    trial: Mutex<Option<Arc<TrialParameters>>>,
    /// Records of completed trials, with the version of the trial.
    records: Mutex<Vec<(u64, ThreadRecord)>>,
    handed_over: Condvar,
}

impl ListenerState {
    /// Begins another trial, or ends the current one. Returns the version of the completed trial.
    pub(super) fn set(&self, trial: Option<Arc<TrialParameters>>) -> u64 {
        let mut place = self.trial.lock().unwrap_or_else(PoisonError::into_inner);
        *place = trial;
        self.version.fetch_add(1, Ordering::Release)
    }

    /// Waits for the records of all `threads` for the trial of this version. Returns fewer if not
    /// all arrive within `limit`.
    pub(super) fn records(
        &self,
        version: u64,
        threads: usize,
        limit: Duration,
    ) -> Vec<ThreadRecord> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |records: &Vec<(u64, ThreadRecord)>| {
            records.iter().filter(|(of, _)| *of == version).count()
        };
        let waited =
            self.handed_over.wait_timeout_while(records, limit, |records| count(records) < threads);
        let mut records = waited.unwrap_or_else(PoisonError::into_inner).0;
        let of_trial = records.drain(..).filter(|(of, _)| *of == version);
        of_trial.map(|(_, record)| record).collect()
    }
}

/// Live counters of one thread.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct ThreadCounters {
    pub(super) signed: AtomicU64,
    pub(super) other: AtomicU64,
}

/// Inspects the packets of a thread's queues.
pub(super) struct Listener {
    board: Arc<ListenerState>,
    live: Arc<ThreadCounters>,
    version: u64,
    current: Option<(Arc<TrialParameters>, ThreadRecord)>,
    clocks: Clocks,
}

impl Listener {
    pub(super) fn new(board: Arc<ListenerState>, live: Arc<ThreadCounters>) -> Self {
        Self { board, live, version: 0, current: None, clocks: Clocks::compare() }
    }

    #[inline]
    fn keep_up(&mut self) {
        if self.board.version.load(Ordering::Acquire) != self.version {
            self.change();
        }
    }

    /// Hands over the record, and starts one for the current trial.
    #[cold]
    fn change(&mut self) {
        self.hand_over();
        let trial = self.board.trial.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock, so that the version belongs to this trial.
        self.version = self.board.version.load(Ordering::Relaxed);
        self.current = trial.as_ref().map(|trial| {
            let record = ThreadRecord::new(trial.seen.flows());
            (Arc::clone(trial), record)
        });
        self.live.signed.store(0, Ordering::Relaxed);
        self.live.other.store(0, Ordering::Relaxed);
    }

    fn hand_over(&mut self) {
        if let Some((_, record)) = self.current.take() {
            let mut records = self.board.records.lock().unwrap_or_else(PoisonError::into_inner);
            records.push((self.version, record));
            self.board.handed_over.notify_all();
        }
    }
}

impl Consumer for Listener {
    fn consume(&mut self, _: usize, batch: &mut Batch) -> Result<()> {
        self.keep_up();
        let Some((trial, record)) = &mut self.current else { return Ok(()) };
        for frame in batch.iter() {
            hear(trial, record, frame, &self.clocks);
        }
        // There is a single writer, so plain stores suffice.
        self.live.signed.store(record.signed, Ordering::Relaxed);
        self.live.other.store(record.other, Ordering::Relaxed);
        Ok(())
    }

    fn longest_sleep(&self) -> Option<Duration> {
        Some(PATIENCE)
    }

    fn round(&mut self, _: &[Rx], idle: bool) -> Result<()> {
        if idle {
            self.keep_up();
        }
        self.clocks.keep_up();
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.hand_over();
        Ok(())
    }
}

#[inline]
fn hear(trial: &TrialParameters, record: &mut ThreadRecord, frame: &Frame, clocks: &Clocks) {
    let packet = frame.data();
    match Signature::parse(trial.key, packet) {
        Some(signature) => {
            let now = clocks.monotonic(frame.timestamp());
            record.signed(signature, packet.len(), now, &trial.seen);
        }
        None => unsigned(trial, record, packet),
    }
}

#[cold]
fn unsigned(trial: &TrialParameters, record: &mut ThreadRecord, packet: &[u8]) {
    let is_stale = trial.earlier.and_then(|key| Signature::parse(key, packet)).is_some();
    *if is_stale { &mut record.stale } else { &mut record.other } += 1;
}
