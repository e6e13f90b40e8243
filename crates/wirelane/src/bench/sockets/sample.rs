//! One measurement: open a port, put it under load, count for a while, and draw the balance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Kind;
use super::loops::{Baton, Phase, SIZES, Station, Tally};
use crate::error::{Error, Result};
use crate::lab::Site;
use crate::mask::{QueueMask, QueueSet};
use crate::placement::Placement;
use crate::port::sim::Stream;
use crate::port::{self, OpenOptions, Port, PortInfo, Spec};
use crate::stats::{RxCounters, TxCounters};
use crate::threads::Crew;

/// Flows of the frames that are sent: every queue gets some.
const FLOWS: u64 = 64;
/// Longer than any ring keeps a packet back (50 ms, see `packet:`).
const QUIET: Duration = Duration::from_millis(120);
/// The balance is drawn after this time at the latest.
const PATIENCE: Duration = Duration::from_secs(3);

/// What one measurement brought.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Packets per second: received by rxdrop, sent by txpush and l2fwd.
    pub packets_per_s: f64,
    /// CPU time per packet in user space, of the threads of the port, in nanoseconds.
    pub user_ns: f64,
    /// CPU time per packet in the kernel, of the same threads.
    pub system_ns: f64,
    /// Packets per system call of these threads; `None` if there was none.
    pub packets_per_call: Option<f64>,
    /// Shares of the batches that had 1, 2 to 3, 4 to 7, … packets.
    pub batches: [f64; SIZES],
    /// Packets per batch.
    pub batch: f64,
    /// Packets that the load sent per second, if there is one.
    pub offered_per_s: Option<f64>,
    /// Shares of what came to the interface that were lost.
    pub lost: Option<Lost>,
}

/// Packets lost, as shares of those that came to the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lost {
    /// By the interface or its driver, before the port had them.
    pub interface: f64,
    /// As the kernel counts for the port.
    pub kernel: f64,
    /// For want of frames.
    pub ring_full: f64,
    /// Received and not sent for want of room.
    pub tx_full: f64,
}

impl Lost {
    /// All together.
    pub fn total(&self) -> f64 {
        self.interface + self.kernel + self.ring_full + self.tx_full
    }
}

/// What is measured, and how.
pub(super) struct Trial<'a> {
    pub(super) spec: &'a Spec,
    pub(super) kind: Kind,
    /// Bytes of a frame without frame check sequence.
    pub(super) size: usize,
    pub(super) window: Duration,
    /// CPUs of the queues.
    pub(super) placement: &'a Placement,
    /// Where the port is; here if `None`.
    pub(super) site: Option<&'a Site>,
    /// Who sends to it.
    pub(super) load: Option<Load<'a>>,
    pub(super) stop: &'a AtomicBool,
}

/// A sender at the other end of the cable.
#[derive(Clone)]
pub(super) struct Load<'a> {
    pub(super) spec: &'a Spec,
    pub(super) site: &'a Site,
    pub(super) placement: &'a Placement,
}

impl Trial<'_> {
    /// Measures once. `None` if it was stopped.
    ///
    /// # Errors
    /// A port cannot be opened, or failed.
    pub(super) fn run(&self) -> Result<Option<(PortInfo, Sample)>> {
        let frames = Arc::new(frames(self.size)?);
        let place = (self.site, self.placement);
        let subject = Party::start(self.spec, self.kind, place, &frames)?;
        let load = match &self.load {
            Some(load) if self.kind != Kind::Txpush => {
                let place = (Some(load.site), load.placement);
                Some(Party::start(load.spec, Kind::Txpush, place, &frames)?)
            }
            _ => None,
        };
        let warm = (self.window / 4).clamp(Duration::from_millis(20), Duration::from_millis(300));
        let parties = || std::iter::once(&subject).chain(load.as_ref());
        let mut go_on = self.sleep(warm, &subject);
        parties().for_each(|party| party.baton.set(Phase::Count));
        go_on = go_on && self.sleep(self.window, &subject);
        parties().for_each(|party| party.baton.set(Phase::Drain));
        let offered = load.map(Party::finish).transpose()?;
        if offered.is_some() {
            subject.drain();
        }
        let info = subject.port.info().clone();
        let outcome = subject.finish()?;
        Ok(go_on.then(|| (info, self.sample(&outcome, offered.as_ref()))))
    }

    /// False if it was stopped meanwhile.
    fn sleep(&self, time: Duration, subject: &Party) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            // A port that failed has no threads left; its error is found at the end.
            if left.is_zero() || subject.crew.wait(left.min(Duration::from_millis(50))) {
                return true;
            }
        }
    }

    fn sample(&self, outcome: &Outcome, offered: Option<&Outcome>) -> Sample {
        let packets = |tally: &Tally| match self.kind {
            Kind::Rxdrop => tally.received,
            Kind::Txpush | Kind::L2fwd => tally.sent,
        };
        let rate = |outcome: &Outcome, of: &dyn Fn(&Tally) -> u64| -> f64 {
            let rates = outcome.tallies.iter();
            rates.map(|tally| of(tally) as f64 * 1e9 / tally.elapsed_ns.max(1) as f64).sum()
        };
        let sum = |of: &dyn Fn(&Tally) -> u64| outcome.tallies.iter().map(of).sum::<u64>();
        let total = sum(&packets).max(1) as f64;
        let calls = sum(&|tally| tally.system_calls);
        let mut batches = [0.0; SIZES];
        let count = sum(&|tally| tally.batches.iter().sum()).max(1) as f64;
        for (i, share) in batches.iter_mut().enumerate() {
            *share = sum(&|tally| tally.batches.get(i).copied().unwrap_or(0)) as f64 / count;
        }
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Sample {
            packets_per_s: rate(outcome, &packets),
            user_ns: sum(&|tally| nanoseconds(tally.cpu.user)) as f64 / total,
            system_ns: sum(&|tally| nanoseconds(tally.cpu.system)) as f64 / total,
            packets_per_call: (calls > 0).then(|| total / calls as f64),
            batches,
            batch: total / count,
            offered_per_s: offered.map(|offered| rate(offered, &|tally| tally.sent)),
            lost: (self.kind != Kind::Txpush).then(|| outcome.lost(offered)),
        }
    }
}

/// A port at work: a thread per queue.
struct Party {
    port: Box<dyn Port>,
    crew: Crew<Result<Tally>>,
    baton: Arc<Baton>,
    rx: Vec<Arc<RxCounters>>,
    tx: Vec<Arc<TxCounters>>,
}

impl Party {
    fn start(
        spec: &Spec,
        kind: Kind,
        (site, placement): (Option<&Site>, &Placement),
        frames: &Arc<Vec<Vec<u8>>>,
    ) -> Result<Self> {
        let options = OpenOptions {
            mask: QueueMask { rx: QueueSet::All, ..QueueMask::NONE },
            receive: kind != Kind::Txpush,
            transmit: kind != Kind::Rxdrop,
            placement: placement.clone(),
            ..OpenOptions::default()
        };
        let open = || port::open(spec, &options);
        let mut port = match site {
            Some(site) => site.inside(open)??,
            None => open()?,
        };
        let (rx, tx) = (port.rx(), port.tx());
        let rx_counters = rx.iter().map(|rx| Arc::clone(rx.counters())).collect();
        let tx_counters = tx.iter().map(|tx| Arc::clone(tx.counters())).collect();
        let baton = Arc::new(Baton::new());
        let (mut rx, mut tx) = (rx.into_iter().map(Some), tx.into_iter().map(Some));
        let stations = std::iter::from_fn(|| match kind {
            Kind::Rxdrop => Some((rx.next()?, None)),
            Kind::Txpush => Some((None, tx.next()?)),
            Kind::L2fwd => Some((rx.next()?, tx.next()?)),
        });
        let jobs = stations.enumerate().map(|(position, (rx, tx))| {
            let mut station = Station { rx, tx, frames: Arc::clone(frames) };
            let baton = Arc::clone(&baton);
            (format!("bench-{position}"), move || station.run(kind, &baton))
        });
        let jobs: Vec<_> = jobs.collect();
        if jobs.is_empty() {
            let cause = "has no queue for this case".to_owned();
            return Err(Error::failed(format!("port '{spec}'"), cause));
        }
        let crew = Crew::start(jobs, placement, || port.start())?;
        Ok(Self { port, crew, baton, rx: rx_counters, tx: tx_counters })
    }

    /// Waits until nothing comes any more.
    fn drain(&self) {
        let received = || self.rx.iter().map(|rx| rx.packets.value()).sum::<u64>();
        let (begin, mut before, mut since) = (Instant::now(), received(), Instant::now());
        while since.elapsed() < QUIET && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
            let now = received();
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
    }

    /// Ends the threads.
    ///
    /// # Errors
    /// What ended one of them before.
    fn finish(mut self) -> Result<Outcome> {
        self.baton.set(Phase::End);
        let (mut results, mut errors) = (Vec::new(), Vec::new());
        self.crew.join(&mut results, &mut errors);
        if let Some(error) = errors.into_iter().next() {
            return Err(error);
        }
        let tallies = results.into_iter().collect::<Result<Vec<_>>>()?;
        self.port.control().stop();
        let known = |value: u64| if value == RxCounters::UNKNOWN { 0 } else { value };
        let rx = |of: fn(&RxCounters) -> u64| self.rx.iter().map(|rx| known(of(rx))).sum();
        Ok(Outcome {
            tallies,
            received: rx(|rx| rx.packets.value()),
            kernel: rx(|rx| rx.kernel.value()),
            ring_full: rx(|rx| rx.ring_full.value()),
            tx_full: rx(|rx| rx.tx_full.value()),
            sent: self.tx.iter().map(|tx| tx.packets.value()).sum(),
        })
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        // The crew waits for its threads.
        self.baton.set(Phase::End);
    }
}

/// What a port counted from its opening to its end.
struct Outcome {
    tallies: Vec<Tally>,
    received: u64,
    kernel: u64,
    ring_full: u64,
    tx_full: u64,
    sent: u64,
}

impl Outcome {
    fn lost(&self, offered: Option<&Outcome>) -> Lost {
        let seen = self.received + self.kernel + self.ring_full;
        let came = offered.map_or(seen, |offered| offered.sent.max(seen));
        let share = |packets: u64| packets as f64 / came.max(1) as f64;
        Lost {
            interface: share(came - seen),
            kernel: share(self.kernel),
            ring_full: share(self.ring_full),
            tx_full: share(self.tx_full),
        }
    }
}

/// What is sent: UDP packets over IPv4 of several flows, to a station that does not exist, so that
/// no host answers.
fn frames(size: usize) -> Result<Vec<Vec<u8>>> {
    let spec: Spec = format!("sim:1?flows={FLOWS}&size={size}").parse()?;
    let stream = Stream::new(&spec)?;
    Ok((0..FLOWS).map(|k| stream.packet(k).bytes).collect())
}
