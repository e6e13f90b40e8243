//! One trial: its sender, its receiver, and their counts.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane::internal::port::shared_memory;
use wirelane::internal::stats::RxCounters;
use wirelane::internal::threads::Crew;
use wirelane::mask::{QueueMask, QueueSet};
use wirelane::placement::Placement;
use wirelane::port::{Backend, OpenOptions, Port, Spec, Take};
use wirelane_lab::Site;
use wirelane_send::kernel::{LivePace, LiveSent};

use super::loops::{Baton, LoopCounts, LoopPhase, PATIENCE, Station, join};
use super::sample::{LossShares, Nature};
use super::subject::SocketsSubject;
use crate::job::wait;
use crate::suites::bed;
use crate::suites::senders::{self, RunningSenders, Seat, Senders};
use crate::task::Task;
use crate::wire::OUTSIDE;

/// Flows of the frames: enough to reach every queue.
const FLOWS: u64 = 64;
/// A little longer than an `xdp:` port polls after its start, with or without packets.
const AWAKE: Duration = Duration::from_millis(600);

/// The subject and the conditions of a trial.
pub(super) struct SocketsTrial<'a> {
    pub(super) subject: &'a SocketsSubject,
    /// Bytes of a frame without frame check sequence.
    pub(super) size: usize,
    pub(super) window: Duration,
    /// How long another program may take to get ready.
    pub(super) patience: Duration,
    /// Which packets a port may take away from the host.
    pub(super) take: Take,
    /// CPUs of the queues.
    pub(super) placement: Placement,
    /// The site of the port; here if `None`.
    pub(super) site: Option<&'a Site>,
    /// The port that forwarding sends to; `None` sends back.
    pub(super) to: Option<&'a Spec>,
    /// The sender.
    pub(super) load: Option<SocketsLoad<'a>>,
    pub(super) stop: &'a AtomicBool,
}

/// The sender at the other end of the cable.
pub(super) struct SocketsLoad<'a> {
    pub(super) site: &'a Site,
    pub(super) by: SenderKind,
}

/// The kind of sender.
pub(super) enum SenderKind {
    /// The kernel, on one CPU.
    One(LivePace),
    /// A sender for each of these queues, as fast as possible.
    Each(Vec<Seat>),
}

impl SocketsTrial<'_> {
    /// With a paced load a port may sleep. The warm-up then ends after the time for which a port
    /// polls at its start.
    pub(super) fn warm_up(&self) -> Duration {
        let warm_up =
            (self.window / 4).clamp(Duration::from_millis(20), Duration::from_millis(300));
        match &self.load {
            Some(SocketsLoad { by: SenderKind::One(LivePace { rate: Some(_), .. }), .. }) => {
                warm_up.max(AWAKE)
            }
            _ => warm_up,
        }
    }

    pub(super) fn sleep(&self, time: Duration, subject: Option<&Party>) -> Result<()> {
        // A port that failed has no threads left; its error is found at the end.
        let ended = || subject.is_some_and(|subject| subject.crew.wait(Duration::ZERO));
        wait(time, self.stop, ended)
    }

    /// Opens the port and, if there is one, the port to which it forwards.
    fn open(&self, spec: &Spec, kind: Task) -> Result<Vec<Port>> {
        let to = self.to.filter(|_| kind == Task::L2fwd);
        let options = OpenOptions::default()
            // The interfaces of the lab carry no management traffic.
            .take(self.take.management(self.site.is_some()))
            // The packets of the sender have an address that no host has.
            .promiscuous(self.site.is_none() && self.load.is_some())
            .mask(QueueMask { rx: QueueSet::All, ..QueueMask::NONE })
            .receive(kind != Task::Txpush)
            .transmit(kind != Task::Rxdrop && to.is_none())
            .placement(self.placement.clone());
        let mut wanted = vec![(spec, options.clone())];
        wanted.extend(to.map(|to| (to, options.receive(false).transmit(true).promiscuous(false))));
        let pairs: Vec<_> = wanted.iter().map(|(spec, options)| (*spec, options)).collect();
        let memory = shared_memory(&pairs)?;
        let open = |((spec, mut options), share): ((&Spec, OpenOptions), _)| {
            options.internal.memory = share;
            bed::open(self.site, spec, &options)
        };
        wanted.into_iter().zip(memory).map(open).collect()
    }
}

impl SocketsLoad<'_> {
    /// Starts to send to a port of this kind.
    pub(super) fn start(&self, frames: &[Vec<u8>], to: Option<Backend>) -> Result<RunningSenders> {
        let (site, interface) = (self.site, self.site.interface());
        let ready = match &self.by {
            SenderKind::One(pace) => Senders::in_kernel(site, interface, frames, &[*pace]),
            SenderKind::Each(seats) => {
                Senders::each(site, interface, frames, seats, to == Some(Backend::Packet))
            }
        };
        ready?.start()
    }
}

pub(super) fn sending_rate(sent: &LiveSent) -> f64 {
    sent.frames as f64 / sent.elapsed.as_secs_f64()
}

/// CPU time of the sender per packet, in nanoseconds.
pub(super) fn sender_ns(sent: &LiveSent) -> f64 {
    sent.cpu.total().as_nanos() as f64 / sent.frames.max(1) as f64
}

/// An open port with a thread per queue.
pub(super) struct Party {
    /// The measured port and, if there is one, the port to which it forwards.
    ports: Vec<Port>,
    crew: Crew<Result<LoopCounts>>,
    threads: usize,
    pub(super) baton: Arc<Baton>,
    pub(super) rx: Vec<Arc<RxCounters>>,
}

impl Party {
    pub(super) fn start(
        spec: &Spec,
        kind: Task,
        trial: &SocketsTrial<'_>,
        frames: &Arc<Vec<Vec<u8>>>,
    ) -> Result<Self> {
        let mut ports = trial.open(spec, kind)?;
        let rx = ports.first_mut().map_or_else(|| Ok(Vec::new()), Port::rx)?;
        let tx = ports.last_mut().map_or_else(|| Ok(Vec::new()), |port| port.tx_if_any(false))?;
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
        let threads = jobs.len();
        let start = || ports.iter_mut().try_for_each(Port::start);
        let crew = Crew::start(jobs, &trial.placement, start)?;
        Ok(Self { ports, crew, threads, baton, rx: rx_counters })
    }

    /// The properties of the opened port.
    pub(super) fn nature(&self, trial: &SocketsTrial<'_>) -> Nature {
        let mut infos = self.ports.iter().map(Port::info);
        let (info, to) = (infos.next(), infos.next());
        let is_named = trial.site.is_none();
        let load = || Some(trial.load.as_ref().map_or(OUTSIDE, |load| load.site.interface()));
        let interface = info.and_then(|info| info.interface.clone()).filter(|_| is_named);
        let is_sender = self.rx.is_empty();
        Nature {
            backend: info.map_or("port", |info| info.backend.as_str()),
            mode: info.map(|info| info.mode.to_string()).unwrap_or_default(),
            queues: info.map_or(0, |info| info.queues.len() as u64),
            load: interface.as_ref().filter(|_| !is_sender).and_then(|_| load()).map(str::to_owned),
            interface,
            to: to.map(|to| [to.spec.clone(), to.mode.to_string()]),
        }
    }

    /// Waits until all threads have finished counting, for a limited time.
    pub(super) fn wait_until_read(&self) {
        let end = Instant::now() + 10 * PATIENCE;
        while self.baton.done() < self.threads && Instant::now() < end {
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// Ends the threads.
    pub(super) fn finish(mut self) -> Result<PortCounts> {
        self.baton.set(LoopPhase::End);
        let tallies = join(&mut self.crew)?;
        self.ports.iter().for_each(|port| port.control().stop());
        let known = |value: u64| if value == RxCounters::UNKNOWN { 0 } else { value };
        let rx = |of: fn(&RxCounters) -> u64| self.rx.iter().map(|rx| known(of(rx))).sum();
        Ok(PortCounts {
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
        self.baton.set(LoopPhase::End);
    }
}

/// The counts of a port from its opening to its end.
pub(super) struct PortCounts {
    pub(super) tallies: Vec<LoopCounts>,
    received: u64,
    kernel: u64,
    ring_full: u64,
    tx_full: u64,
}

impl PortCounts {
    pub(super) fn lost(&self, offered: Option<&LiveSent>) -> LossShares {
        let seen = self.received + self.kernel + self.ring_full;
        let came = offered.map_or(seen, |offered| offered.frames.max(seen));
        let share = |packets: u64| packets as f64 / came.max(1) as f64;
        LossShares {
            interface: share(came - seen),
            kernel: share(self.kernel),
            ring_full: share(self.ring_full),
            tx_full: share(self.tx_full),
        }
    }
}

/// The frames to send.
pub(super) fn frames(size: usize) -> Result<Vec<Vec<u8>>> {
    senders::frames(FLOWS, size)
}
