//! A running session that sends, whichever engine it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::halt::Halt;
use wirelane::internal::port::XpsWatch;
use wirelane::internal::threads::Crew;
use wirelane::pipeline::Handle;
use wirelane::placement::Placement;
use wirelane::port::{Backend, FrameCounts, Port, PortInfo};
use wirelane::segment::SegmentStats;
use wirelane::session::monitor::{Monitor, Reading};
use wirelane::session::{Session, Worker};
use wirelane::stats::TxStats;
use wirelane::{Error, Result};
use wirelane_gen::{PacketSource, ThreadShare};
use wirelane_os::netdev::LinkReader;

use crate::engine::SendEngine;
use crate::pacer::Pacing;
use crate::timing::{Departures, Timing};

/// How to send. Each field has a setter of the same name.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SendConfig {
    /// How exactly.
    pub pacing: Pacing,
    /// End after this many packets of all threads, sent or not.
    pub packets: Option<u64>,
    /// End before the first packet that is due after this time; as fast as possible, when it has
    /// passed.
    pub duration: Option<Duration>,
    /// Which thread runs on which CPU.
    pub placement: Placement,
    /// Cut packets that are longer than the port's MTU (GSO), instead of counting them as
    /// [`Skipped::too_long`].
    pub cut: bool,
    /// At most this number of threads; otherwise one per TX queue.
    pub threads: Option<usize>,
    /// Ends the wait for a link at the start; then nothing is sent. Later [`Session::stop`] ends
    /// the session.
    pub halt: Halt,
}

wirelane_wire::setters!(SendConfig:
    pacing: Pacing,
    packets: Option<u64>,
    duration: Option<Duration>,
    placement: Placement,
    cut: bool,
    threads: Option<usize>,
    halt: Halt,
);

/// Makes the packets of one sending thread.
pub type MakeSource<'a> = dyn FnMut(ThreadShare) -> Result<Box<dyn PacketSource>> + 'a;

/// The threads that send through a port, whichever engine it is.
pub struct Sending {
    pub(crate) engine: SendEngine,
    /// End before the port whose frames they hold.
    pub(crate) crew: Crew<LaneEnd>,
    pub(crate) port: Port,
    pub(crate) lanes: Arc<[LaneProgress]>,
    /// Notices changes of the CPUs that send through each TX queue.
    pub(crate) watch: XpsWatch,
    pub(crate) notes: Notes,
}

/// Makes the notes of an engine at the end: about its port, and about packets that were not sent.
pub(crate) type Notes = Box<dyn Fn(&Port, &SendOutcome) -> Vec<String> + Send + Sync>;

/// The progress of a lane, for other threads; each on separate cache lines.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct LaneProgress {
    pub(crate) packets: AtomicU64,
    pub(crate) at: AtomicU64,
}

/// The result of a thread.
pub(crate) struct LaneEnd {
    pub(crate) departures: Departures,
    pub(crate) skipped: Skipped,
    pub(crate) errors: Vec<Error>,
}

impl Sending {
    /// The session of these threads, which run. `stop` ends them.
    pub(crate) fn into_session(
        self,
        monitor: Monitor,
        stop: impl Fn() + Send + Sync + 'static,
    ) -> Session<Self> {
        let handle = Handle::new(vec![self.port.control()], stop);
        Session::new(self, monitor, handle)
    }

    /// Who sends.
    pub fn engine(&self) -> SendEngine {
        self.engine
    }

    /// How far it is, from any thread.
    pub fn progress(&self) -> SendProgress {
        let packets = self.lanes.iter().map(|lane| lane.packets.load(Ordering::Relaxed)).sum();
        let at = self.lanes.iter().map(|lane| lane.at.load(Ordering::Relaxed)).max().unwrap_or(0);
        SendProgress::new(packets, Duration::from_nanos(at))
    }
}

impl Worker for Sending {
    type Outcome = SendOutcome;

    /// Once per second it also checks which CPUs send through which TX queue. The threads follow a
    /// change.
    fn wait(&self, timeout: Duration) -> bool {
        self.watch.while_waiting(timeout, |slice| self.crew.wait(slice))
    }

    fn join(mut self, monitor: &Monitor) -> SendOutcome {
        let (mut ends, mut errors) = (Vec::new(), Vec::new());
        self.crew.join(&mut ends, &mut errors);
        let mut outcome = SendOutcome::new(self.engine, self.port.info().clone());
        let mut departures = Departures::new();
        for mut end in ends {
            departures.add(&end.departures);
            outcome.skipped.too_long += end.skipped.too_long;
            outcome.skipped.unsent += end.skipped.unsent;
            errors.append(&mut end.errors);
        }
        // An interface that was removed fails at each of its queues.
        Error::each_once(&mut errors);
        let Reading { tx, gso, .. } = monitor.read();
        outcome.tx = tx;
        outcome.gso = gso.into_iter().map(|(_, queue, stats)| (queue, stats)).collect();
        outcome.timing = departures.timing();
        outcome.port.notes.extend((self.notes)(&self.port, &outcome));
        outcome.port.notes.extend(self.watch.notes(&outcome.port));
        outcome.errors = errors;
        outcome.frames = self.port.frames();
        outcome
    }
}

/// How far a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendProgress {
    /// Packets made.
    pub packets: u64,
    /// The time in the schedule of the newest one.
    pub at: Duration,
}

impl SendProgress {
    /// So many packets, the newest one scheduled for `at`.
    pub fn new(packets: u64, at: Duration) -> Self {
        Self { packets, at }
    }
}

/// The outcome of sending. Each packet of the sources was sent, is one of `tx.errors`, or was
/// skipped.
#[derive(Debug)]
#[non_exhaustive]
pub struct SendOutcome {
    /// Who sent.
    pub engine: SendEngine,
    /// The port, with notes added while it ran.
    pub port: PortInfo,
    /// The counters of every transmitting end.
    pub tx: Vec<TxStats>,
    /// Statistics of segmentation, by TX queue.
    pub gso: Vec<(u16, SegmentStats)>,
    /// Packets that no transmitting end has counted.
    pub skipped: Skipped,
    /// How exactly it was sent.
    pub timing: Timing,
    /// Where the port's frames are.
    pub frames: FrameCounts,
    /// Errors, the first one first. The counters above are valid nevertheless.
    pub errors: Vec<Error>,
}

impl SendOutcome {
    /// The outcome of `engine` at `port`, with nothing sent yet.
    pub fn new(engine: SendEngine, mut port: PortInfo) -> Self {
        if engine == SendEngine::Kernel {
            // Its frames leave by the queue of the CPU that sends them, whatever the ends of the
            // port do.
            port.tx_queues.clear();
        }
        Self {
            engine,
            port,
            tx: Vec::new(),
            gso: Vec::new(),
            skipped: Skipped::default(),
            timing: Timing::default(),
            frames: FrameCounts::default(),
            errors: Vec::new(),
        }
    }

    /// Packets sent.
    pub fn sent(&self) -> u64 {
        self.tx.iter().map(|tx| tx.packets).sum()
    }
}

/// Packets of the sources that no transmitting end has counted, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Longer than the port takes.
    pub too_long: u64,
    /// Written, but the port did not take them before the end.
    pub unsent: u64,
}

/// The error when an interface has no link: the kernel then drops every packet and reports it as
/// sent.
pub(crate) fn has_no_link(interface: &str) -> Error {
    let error = Error::failed(interface, "the interface has no link");
    error.help("look at its cable, and whether the other end is up")
}

/// The interface whose link decides whether packets leave.
pub(crate) fn on_interface(info: &PortInfo) -> Option<&str> {
    let has_link = matches!(info.backend, Backend::Packet | Backend::Xdp);
    info.interface.as_deref().filter(|_| has_link)
}

/// How long a card may lack its link after an XDP program is attached.
const LINK: Duration = Duration::from_secs(5);

/// Waits for a link that was lost when the port was opened (igb_xdp_setup), so that no packet is
/// sent in vain, or until `halt` is asked. The senders report an interface that is down or remains
/// without a link. A port of another network namespace is not waited for.
pub(crate) fn wait_for_link(interface: &str, halt: &Halt) {
    let Ok(mut reader) = LinkReader::open(interface) else { return };
    let end = Instant::now() + LINK;
    while let Ok(link) = reader.read() {
        let is_over = halt.is_asked() || Instant::now() >= end;
        if !link.is_up() || link.is_running() || is_over {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The error when the interface of a session was set down.
pub(crate) fn is_down(interface: &str) -> Error {
    let error = Error::failed(interface, "the interface is down");
    error.help(format!("`ip link set {interface} up` brings it up"))
}
