//! One trial: who sends, who receives, and what they counted.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane::mask::{QueueMask, QueueSet};
use wirelane::placement::Placement;
use wirelane::port::sim::Stream;
use wirelane::port::{self, OpenOptions, Port, Spec, Take};
use wirelane::stats::RxCounters;
use wirelane::threads::Crew;
use wirelane_lab::Site;
use wirelane_send::kernel::{LiveSender, Pace, Sending, Sent};

use super::loops::{Baton, Phase, Station, Tally};
use super::sample::Lost;
use super::subject::Subject;
use crate::task::Task;

/// Flows of the frames that are sent: every queue gets some.
const FLOWS: u64 = 64;
/// A little longer than an `xdp:` port stays awake at its beginning, whatever comes.
const AWAKE: Duration = Duration::from_millis(600);

/// What is measured, and how.
pub(super) struct Trial<'a> {
    pub(super) subject: &'a Subject,
    /// Bytes of a frame without frame check sequence.
    pub(super) size: usize,
    pub(super) window: Duration,
    /// How long another program may take to get ready.
    pub(super) patience: Duration,
    /// Which packets a port may take away from the host.
    pub(super) take: Take,
    /// CPUs of the queues.
    pub(super) placement: &'a Placement,
    /// Where the port is; here if `None`.
    pub(super) site: Option<&'a Site>,
    /// Who sends to it.
    pub(super) load: Option<Load<'a>>,
    pub(super) stop: &'a AtomicBool,
}

/// A sender at the other end of the cable.
#[derive(Clone, Copy)]
pub(super) struct Load<'a> {
    pub(super) site: &'a Site,
    pub(super) pace: Pace,
}

impl Trial<'_> {
    /// Under a load that leaves a port time to sleep it is over when ports begin to do so.
    pub(super) fn warm_up(&self) -> Duration {
        let warm_up =
            (self.window / 4).clamp(Duration::from_millis(20), Duration::from_millis(300));
        match &self.load {
            Some(load) if load.pace.rate.is_some() => warm_up.max(AWAKE),
            _ => warm_up,
        }
    }

    /// Sleeps; false if the run was stopped.
    pub(super) fn sleep(&self, time: Duration, subject: Option<&Party>) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            let slice = left.min(Duration::from_millis(50));
            // A port that failed has no threads left; its error is found at the end.
            let ended = subject.is_some_and(|subject| subject.crew.wait(slice));
            if left.is_zero() || ended {
                return true;
            }
            if subject.is_none() {
                thread::sleep(slice);
            }
        }
    }
}

impl Load<'_> {
    pub(super) fn start(&self, frames: &[Vec<u8>]) -> Result<Sending> {
        let start = || {
            LiveSender::new(self.site.interface(), frames)
                .and_then(|sender| sender.start(self.pace))
        };
        self.site.inside(start)?
    }
}

pub(super) fn sending_rate(sent: &Sent) -> f64 {
    sent.frames as f64 / sent.elapsed.as_secs_f64()
}

/// CPU time of the sender per packet, in nanoseconds.
pub(super) fn sender_ns(sent: &Sent) -> f64 {
    sent.cpu.total().as_nanos() as f64 / sent.frames.max(1) as f64
}

/// A port at work: a thread per queue.
pub(super) struct Party {
    pub(super) port: Port,
    crew: Crew<Result<Tally>>,
    pub(super) baton: Arc<Baton>,
    pub(super) rx: Vec<Arc<RxCounters>>,
}

impl Party {
    pub(super) fn start(
        spec: &Spec,
        kind: Task,
        trial: &Trial<'_>,
        frames: &Arc<Vec<Vec<u8>>>,
    ) -> Result<Self> {
        let options = OpenOptions::default()
            .take(trial.take)
            // Nobody is reached over an interface of ours.
            .take_management(trial.site.is_some())
            .mask(QueueMask { rx: QueueSet::All, ..QueueMask::NONE })
            .receive(kind != Task::Txpush)
            .transmit(kind != Task::Rxdrop)
            .placement(trial.placement.clone());
        let open = || port::open(spec, &options);
        let mut port = match trial.site {
            Some(site) => site.inside(open)??,
            None => open()?,
        };
        let (rx, tx) = (port.rx(), port.tx());
        let rx_counters = rx.iter().map(|rx| Arc::clone(rx.counters())).collect();
        let baton = Arc::new(Baton::new());
        let (mut rx, mut tx) = (rx.into_iter().map(Some), tx.into_iter().map(Some));
        let stations = std::iter::from_fn(|| match kind {
            Task::Rxdrop => Some((rx.next()?, None)),
            Task::Txpush => Some((None, tx.next()?)),
            Task::L2fwd => Some((rx.next()?, tx.next()?)),
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
        let crew = Crew::start(jobs, trial.placement, || port.start())?;
        Ok(Self { port, crew, baton, rx: rx_counters })
    }

    /// Ends the threads.
    ///
    /// # Errors
    /// What ended one of them before.
    pub(super) fn finish(mut self) -> Result<Outcome> {
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
pub(super) struct Outcome {
    pub(super) tallies: Vec<Tally>,
    received: u64,
    kernel: u64,
    ring_full: u64,
    tx_full: u64,
}

impl Outcome {
    pub(super) fn lost(&self, offered: Option<&Sent>) -> Lost {
        let seen = self.received + self.kernel + self.ring_full;
        let came = offered.map_or(seen, |offered| offered.frames.max(seen));
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
pub(super) fn frames(size: usize) -> Result<Vec<Vec<u8>>> {
    let spec: Spec = format!("sim:1?flows={FLOWS}&size={size}").parse()?;
    let stream = Stream::new(&spec)?;
    Ok((0..FLOWS).map(|k| stream.packet(k).bytes).collect())
}

/// Packets that the interface of a site has received.
pub(super) fn received(site: &Site) -> Result<u64> {
    let text = site.inside(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
    let text = text.map_err(|error| Error::io("/proc/net/dev", "read", error))?;
    // name: bytes packets …
    let of = |line: &str| {
        let counts = line.trim().strip_prefix(site.interface())?.strip_prefix(':')?;
        counts.split_whitespace().nth(1)?.parse().ok()
    };
    let found = text.lines().find_map(of);
    found.ok_or_else(|| Error::failed(site.interface(), "/proc/net/dev does not count its packets"))
}
