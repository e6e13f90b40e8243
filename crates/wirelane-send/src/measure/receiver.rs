//! A receiving port that stays open for several trials.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane::internal::port::ProgramOptions;
use wirelane::pipeline::{Running, Threads};
use wirelane::placement::Placement;
use wirelane::port::{self, OpenOptions, Port, PortInfo, Spec};
use wirelane::{QueueMask, QueueSet};
use wirelane_gen::signature::SignatureKey;

use super::listener::{Listener, ListenerState, ThreadCounters, TrialParameters};
use super::record::Heard;
use super::seen::Expectation;

/// The time limit for threads to hand over their records: they check for it once per batch.
const HAND_OVER: Duration = Duration::from_secs(5);
/// The interval at which the progress is read.
const LOOK: Duration = Duration::from_millis(2);

/// Measures the signed packets of a port, with a thread per queue. The port stays open between
/// trials.
pub struct SignedReceiver {
    running: Running<Listener>,
    board: Arc<ListenerState>,
    live: Vec<Arc<ThreadCounters>>,
    earlier: Option<SignatureKey>,
    dropped: Option<u64>,
    name: String,
}

/// Packets received so far in the current trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasureProgress {
    /// Signed packets, including copies.
    pub signed: u64,
    /// Other packets.
    pub other: u64,
}

impl SignedReceiver {
    /// Options for a receiving port: it gets copies of incoming packets with little delay.
    pub fn options(placement: &Placement) -> OpenOptions {
        let received =
            QueueMask { enabled: true, rx: QueueSet::All, tx: QueueSet::NONE, other: true };
        OpenOptions::default()
            .mask(received)
            .internal(ProgramOptions::default().outgoing(false))
            .promiscuous(true)
            .latency(Duration::from_millis(1))
            .placement(placement.clone())
    }

    /// Opens a port and starts to receive.
    ///
    /// # Errors
    /// The port cannot be opened, or has no queue.
    pub fn open(spec: &Spec, placement: &Placement) -> Result<Self> {
        Self::start(port::open(spec, &Self::options(placement))?, placement)
    }

    /// Starts to receive from a port that was opened with [`options`](Self::options).
    ///
    /// # Errors
    /// The port has no queue to receive from, or cannot be started.
    pub fn start(port: Port, placement: &Placement) -> Result<Self> {
        let name = port.info().spec.clone();
        let board = Arc::new(ListenerState::default());
        let mut live = Vec::new();
        let running = Threads::default().placed(placement.clone()).spawn(port, |_| {
            let own = Arc::new(ThreadCounters::default());
            live.push(Arc::clone(&own));
            Listener::new(Arc::clone(&board), own)
        })?;
        Ok(Self { running, board, live, earlier: None, dropped: None, name })
    }

    /// The properties of the port.
    pub fn info(&self) -> Option<&PortInfo> {
        self.running.ports().next()
    }

    /// Begins a trial. The caller sends its packets only after this call.
    pub fn begin(&mut self, expected: &Expectation) {
        let trial = TrialParameters::new(expected, self.earlier.replace(expected.key));
        self.dropped = self.dropped_so_far();
        // Threads check the version before each batch, so they count all packets of this trial.
        self.board.set(Some(Arc::new(trial)));
    }

    /// Packets received so far.
    pub fn progress(&self) -> MeasureProgress {
        let sum = |of: fn(&ThreadCounters) -> u64| self.live.iter().map(|live| of(live)).sum();
        MeasureProgress {
            signed: sum(|live| live.signed.load(Ordering::Relaxed)),
            other: sum(|live| live.other.load(Ordering::Relaxed)),
        }
    }

    /// Waits until no signed packet has arrived for `settle`, at most `limit`. The caller has sent
    /// all packets before. After the wait, missing packets count as lost.
    pub fn settle(&self, settle: Duration, limit: Duration) {
        let begin = Instant::now();
        let (mut before, mut since) = (self.progress().signed, begin);
        while since.elapsed() < settle && begin.elapsed() < limit && !self.has_ended() {
            thread::sleep(LOOK);
            let now = self.progress().signed;
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
    }

    /// Ends the trial.
    ///
    /// # Errors
    /// A receiving thread has failed or does not respond.
    pub fn end(&mut self) -> Result<Heard> {
        let version = self.board.set(None);
        let records = self.board.records(version, self.live.len(), HAND_OVER);
        if records.len() < self.live.len() {
            let cause = if self.has_ended() {
                "stopped receiving; is the interface gone?"
            } else {
                "a receiving thread does not answer; the machine is overloaded"
            };
            return Err(Error::failed(self.name.clone(), cause));
        }
        let mut heard = Heard::default();
        records.iter().for_each(|record| record.add_to(&mut heard));
        let lost = self.dropped_so_far();
        heard.dropped = lost.zip(self.dropped).map(|(now, before)| now.saturating_sub(before));
        Ok(heard)
    }

    fn has_ended(&self) -> bool {
        self.running.wait(Some(Duration::ZERO))
    }

    /// Packets dropped because the rings were full, since the port was opened.
    fn dropped_so_far(&self) -> Option<u64> {
        let queues = self.running.queues();
        let lost = |queue: &wirelane::stats::QueueStats| {
            Some(queue.dropped.kernel? + queue.dropped.ring_full?)
        };
        queues.iter().map(lost).sum()
    }
}
