//! A port that listens, trial after trial.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane::pipeline::{Running, Threads};
use wirelane::placement::Placement;
use wirelane::port::{self, OpenOptions, Port, PortInfo, Spec};
use wirelane::{QueueMask, QueueSet};
use wirelane_gen::signature::Key;

use super::listener::{Board, Listener, Live, Trial};
use super::record::Heard;
use super::seen::Expectation;

/// How long threads may take to hand over what they heard: they look once per batch.
const HAND_OVER: Duration = Duration::from_secs(5);
/// How often to look whether anything came.
const LOOK: Duration = Duration::from_millis(2);

/// A port whose signed packets are measured, a thread per queue. It stays open from trial to trial.
pub struct Receiver {
    running: Running<Listener>,
    board: Arc<Board>,
    live: Vec<Arc<Live>>,
    earlier: Option<Key>,
    dropped: Option<u64>,
    name: String,
}

/// What has come so far in the trial that runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Signed packets, copies included.
    pub signed: u64,
    /// Others.
    pub other: u64,
}

impl Receiver {
    /// Options to open a port with that listens: copies of what arrives, soon after it does.
    pub fn options(placement: &Placement) -> OpenOptions {
        let received =
            QueueMask { enabled: true, rx: QueueSet::All, tx: QueueSet::NONE, other: true };
        OpenOptions::default()
            .mask(received)
            .outgoing(false)
            .promiscuous(true)
            .latency(Duration::from_millis(1))
            .placement(placement.clone())
    }

    /// Opens a port and listens.
    ///
    /// # Errors
    /// The port cannot be opened, or has no queue.
    pub fn open(spec: &Spec, placement: &Placement) -> Result<Self> {
        Self::start(port::open(spec, &Self::options(placement))?, placement)
    }

    /// Listens at a port, which was opened with such [`options`](Self::options).
    ///
    /// # Errors
    /// The port has no queue to receive from, or refuses to start.
    pub fn start(port: Port, placement: &Placement) -> Result<Self> {
        let name = port.info().spec.clone();
        let board = Arc::new(Board::default());
        let mut live = Vec::new();
        let running = Threads::default().placed(placement.clone()).spawn(port, |_| {
            let own = Arc::new(Live::default());
            live.push(Arc::clone(&own));
            Listener::new(Arc::clone(&board), own)
        })?;
        Ok(Self { running, board, live, earlier: None, dropped: None, name })
    }

    /// What the port turned out to be.
    pub fn info(&self) -> Option<&PortInfo> {
        self.running.ports().next()
    }

    /// Begins a trial. Nothing may have been sent of it before.
    pub fn begin(&mut self, expected: &Expectation) {
        let trial = Trial::new(expected, self.earlier.replace(expected.key));
        self.dropped = self.dropped_so_far();
        // Threads look before they hear a batch, so nothing of this trial is missed.
        self.board.set(Some(Arc::new(trial)));
    }

    /// What has come so far.
    pub fn progress(&self) -> Progress {
        let sum = |of: fn(&Live) -> u64| self.live.iter().map(|live| of(live)).sum();
        Progress {
            signed: sum(|live| live.signed.load(Ordering::Relaxed)),
            other: sum(|live| live.other.load(Ordering::Relaxed)),
        }
    }

    /// Waits, after everything was sent, until no signed packet has come for `settle`; at most
    /// `limit`. Then nothing is under way any more, and what is missing is lost.
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
    /// A receiving thread has failed, or does not answer.
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

    /// Packets that did not fit into the rings since the port was opened.
    fn dropped_so_far(&self) -> Option<u64> {
        let queues = self.running.queues();
        let lost = |queue: &wirelane::stats::QueueStats| {
            Some(queue.dropped.kernel? + queue.dropped.ring_full?)
        };
        queues.iter().map(lost).sum()
    }
}
