//! One measurement: open a port, put it under load, count for a while, and draw the balance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_os::bpf::XdpMode;

use super::Kind;
use super::baseline::Baseline;
use super::loops::{Baton, Phase, SIZES, Station, Tally};
use super::peer::{self, Over};
use wirelane::error::{Error, Result};
use wirelane::mask::{QueueMask, QueueSet};
use wirelane::placement::Placement;
use wirelane::port::sim::Stream;
use wirelane::port::{self, OpenOptions, Port, Spec, Take};
use wirelane::stats::RxCounters;
use wirelane::threads::Crew;
use wirelane_lab::Site;
use wirelane_lab::live::{LiveSender, Pace, Sending, Sent};

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
    /// These packets, while it was counted.
    pub packets: u64,
    /// What the threads of the port did for it; `None` if there is no port.
    pub threads: Option<Threads>,
    /// CPU time per packet of another program, in nanoseconds.
    pub cpu_ns: Option<f64>,
    /// Packets that the load sent per second, if there is one.
    pub offered_per_s: Option<f64>,
    /// Shares of what came to the interface that were lost.
    pub lost: Option<Lost>,
}

impl Sample {
    /// CPU time per packet of whoever received or sent, in nanoseconds.
    pub(super) fn cpu_ns(&self) -> Option<f64> {
        let own = self.threads.as_ref().map(|threads| threads.user_ns + threads.system_ns);
        own.or(self.cpu_ns)
    }
}

/// What the threads of a port did for its packets.
#[derive(Clone, Debug, Default)]
pub struct Threads {
    /// CPU time per packet in user space, in nanoseconds.
    pub user_ns: f64,
    /// CPU time per packet in the kernel.
    pub system_ns: f64,
    /// Packets per system call; `None` if there was none.
    pub packets_per_call: Option<f64>,
    /// Shares of the batches that had 1, 2 to 3, 4 to 7, … packets.
    pub batches: [f64; SIZES],
    /// Packets per batch.
    pub batch: f64,
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

/// What is measured: a port, or the kernel without one.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// What is done with the packets of a port.
    Port(Spec, Kind),
    /// An XDP program that drops what arrives at the far end of the lab.
    XdpDrop(XdpMode),
    /// Another program.
    Peer(Kind, Over),
}

/// A little longer than an `xdp:` port stays awake at its beginning, whatever comes.
const AWAKE: Duration = Duration::from_millis(600);

/// What it turned out to be.
#[derive(Clone, Debug)]
pub(super) struct Nature {
    pub(super) backend: &'static str,
    pub(super) mode: String,
    pub(super) queues: u64,
}

/// What is measured, and how.
pub(super) struct Trial<'a> {
    pub(super) subject: &'a Subject,
    /// Bytes of a frame without frame check sequence.
    pub(super) size: usize,
    pub(super) window: Duration,
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
    /// Measures once. `None` if it was stopped.
    ///
    /// # Errors
    /// A port cannot be opened, or failed.
    pub(super) fn run(&self, commands: &mut Vec<String>) -> Result<Option<(Nature, Sample)>> {
        match (self.subject, self.site) {
            (Subject::Port(spec, kind), _) => self.run_port(spec, *kind),
            (Subject::XdpDrop(mode), Some(site)) => self.run_drop(*mode, site),
            (Subject::Peer(kind, Over::Xdp), _) => peer::over_xdp(self, *kind, commands),
            (Subject::Peer(_, Over::Nothing), _) => peer::over_nothing(self, commands),
            (Subject::XdpDrop(_), None) => {
                Err(Error::failed("XDP program that drops", "is for a lab only"))
            }
        }
    }

    fn run_port(&self, spec: &Spec, kind: Kind) -> Result<Option<(Nature, Sample)>> {
        let frames = Arc::new(frames(self.size)?);
        let subject = Party::start(spec, kind, self, &frames)?;
        let load = match &self.load {
            Some(load) if kind != Kind::Txpush => Some(load.start(&frames)?),
            _ => None,
        };
        let mut go_on = self.sleep(self.warm_up(), Some(&subject));
        subject.baton.set(Phase::Count);
        go_on = go_on && self.sleep(self.window, Some(&subject));
        subject.baton.set(Phase::Drain);
        let offered = load.map(Sending::stop).transpose()?;
        if offered.is_some() {
            let received = || Ok(subject.rx.iter().map(|rx| rx.packets.value()).sum());
            drain(received)?;
        }
        let info = subject.port.info();
        let nature = Nature {
            backend: info.backend.as_str(),
            mode: info.mode.to_string(),
            queues: info.queues.len() as u64,
        };
        let outcome = subject.finish()?;
        Ok(go_on.then(|| (nature, sample(kind, &outcome, offered.as_ref()))))
    }

    fn run_drop(&self, mode: XdpMode, site: &Site) -> Result<Option<(Nature, Sample)>> {
        let baseline = site.inside(|| Baseline::attach(site.interface(), mode))??;
        let frames = frames(self.size)?;
        let load = self.load.as_ref().map(|load| load.start(&frames)).transpose()?;
        let mut go_on = self.sleep(self.warm_up(), None);
        let (before, begin) = (baseline.packets()?, Instant::now());
        go_on = go_on && self.sleep(self.window, None);
        let (packets, elapsed) = (baseline.packets()? - before, begin.elapsed());
        let offered = load.map(Sending::stop).transpose()?;
        drain(|| baseline.packets())?;
        let total = baseline.packets()?;
        let came = offered.as_ref().map_or(total, |offered| offered.frames.max(total));
        let lost = (came - total) as f64 / came.max(1) as f64;
        let nature = Nature {
            backend: "xdp",
            mode: if mode == XdpMode::Native { "native" } else { "generic" }.to_owned(),
            queues: 1,
        };
        let sample = Sample {
            packets_per_s: packets as f64 / elapsed.as_secs_f64(),
            packets,
            offered_per_s: offered.as_ref().map(sending_rate),
            lost: Some(Lost { interface: lost, ..Lost::default() }),
            ..Sample::default()
        };
        Ok(go_on.then_some((nature, sample)))
    }

    /// Under a load that leaves a port time to sleep it is over when ports begin to do so.
    pub(super) fn warm_up(&self) -> Duration {
        let warm_up =
            (self.window / 4).clamp(Duration::from_millis(20), Duration::from_millis(300));
        match &self.load {
            Some(load) if load.pace.rate.is_some() => warm_up.max(AWAKE),
            _ => warm_up,
        }
    }

    /// False if it was stopped meanwhile.
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

/// Packets per second of all threads together.
fn rate(outcome: &Outcome, of: impl Fn(&Tally) -> u64) -> f64 {
    let of = |tally| of(tally) as f64 * 1e9 / tally.elapsed_ns.max(1) as f64;
    outcome.tallies.iter().map(of).sum()
}

pub(super) fn sending_rate(sent: &Sent) -> f64 {
    sent.frames as f64 / sent.elapsed.as_secs_f64()
}

fn sample(kind: Kind, outcome: &Outcome, offered: Option<&Sent>) -> Sample {
    let packets = |tally: &Tally| match kind {
        Kind::Rxdrop => tally.received,
        Kind::Txpush | Kind::L2fwd => tally.sent,
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
    let user_ns = sum(&|tally| nanoseconds(tally.cpu.user)) as f64 / total;
    let system_ns = sum(&|tally| nanoseconds(tally.cpu.system)) as f64 / total;
    let threads = Threads {
        user_ns,
        system_ns,
        packets_per_call: (calls > 0).then(|| total / calls as f64),
        batches,
        batch: total / count,
    };
    Sample {
        packets_per_s: rate(outcome, packets),
        packets: sum(&packets),
        threads: Some(threads),
        cpu_ns: None,
        offered_per_s: offered.map(sending_rate),
        lost: (kind != Kind::Txpush).then(|| outcome.lost(offered)),
    }
}

/// Waits until nothing comes any more.
fn drain(received: impl Fn() -> Result<u64>) -> Result<()> {
    let (begin, mut before, mut since) = (Instant::now(), received()?, Instant::now());
    while since.elapsed() < QUIET && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
        let now = received()?;
        if now != before {
            (before, since) = (now, Instant::now());
        }
    }
    Ok(())
}

/// A port at work: a thread per queue.
pub(super) struct Party {
    port: Port,
    crew: Crew<Result<Tally>>,
    baton: Arc<Baton>,
    rx: Vec<Arc<RxCounters>>,
}

impl Party {
    fn start(
        spec: &Spec,
        kind: Kind,
        trial: &Trial<'_>,
        frames: &Arc<Vec<Vec<u8>>>,
    ) -> Result<Self> {
        let options = OpenOptions::default()
            .take(trial.take)
            // Nobody is reached over an interface of ours.
            .take_management(trial.site.is_some())
            .mask(QueueMask { rx: QueueSet::All, ..QueueMask::NONE })
            .receive(kind != Kind::Txpush)
            .transmit(kind != Kind::Rxdrop)
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
        let crew = Crew::start(jobs, trial.placement, || port.start())?;
        Ok(Self { port, crew, baton, rx: rx_counters })
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
}

impl Outcome {
    fn lost(&self, offered: Option<&Sent>) -> Lost {
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
