//! A running session that sends, whichever engine it is.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::halt::Halt;
use wirelane::placement::Placement;
use wirelane::port::{Backend, Control, FrameCounts, PortInfo};
use wirelane::segment::SegmentStats;
use wirelane::session::monitor::Monitor;
use wirelane::stats::TxStats;
use wirelane::{Error, Result};
use wirelane_gen::{Lane, Source};
use wirelane_os::netdev::LinkReader;

use crate::engine::Engine;
use crate::pacer::Pacing;
use crate::timing::Timing;

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
    /// At most so many threads; otherwise one per TX queue.
    pub threads: Option<usize>,
    /// Ends the wait for a link at the start; then nothing is sent. Later [`Sending::stop`] ends
    /// the session.
    pub halt: Halt,
}

/// Setters by value, named as the fields that they set.
macro_rules! setters {
    ($($field:ident: $value:ty),+ $(,)?) => {
        impl SendConfig {
            $(
                #[doc = concat!("Sets [`SendConfig::", stringify!($field), "`](#structfield.",
                    stringify!($field), ").")]
                #[must_use]
                pub fn $field(self, $field: $value) -> Self {
                    #[allow(clippy::useless_conversion, reason = "it is one for what is optional")]
                    Self { $field: $field.into(), ..self }
                }
            )+
        }
    };
}

setters!(
    pacing: Pacing,
    packets: impl Into<Option<u64>>,
    duration: impl Into<Option<Duration>>,
    placement: Placement,
    cut: bool,
    threads: impl Into<Option<usize>>,
    halt: Halt,
);

/// Makes the packets of one sending thread.
pub type MakeSource<'a> = dyn FnMut(Lane) -> Result<Box<dyn Source>> + 'a;

/// A running session, whichever engine it is. Dropping it stops it; [`Sending::join`] also returns
/// the outcome.
pub trait Sending {
    /// Who sends.
    fn engine(&self) -> Engine;

    /// The port.
    fn port(&self) -> &PortInfo;

    /// Reads all counters, from any thread.
    fn monitor(&self) -> Monitor;

    /// Masks, filter and stop of the port, for any thread.
    fn control(&self) -> Arc<dyn Control>;

    /// How far it is, from any thread.
    fn progress(&self) -> Progress;

    /// Waits until everything is sent or has failed, at most `timeout`; true if so.
    fn wait(&self, timeout: Duration) -> bool;

    /// Makes no more packets. What was made is still sent.
    fn stop(&self);

    /// Waits for the end, and reports. Call [`Sending::stop`] before to end it early.
    fn join(self: Box<Self>) -> SendOutcome;
}

/// How far a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Packets made.
    pub packets: u64,
    /// The time in the schedule of the newest one.
    pub at: Duration,
}

impl Progress {
    /// So many packets, the newest one scheduled for `at`.
    pub fn new(packets: u64, at: Duration) -> Self {
        Self { packets, at }
    }
}

/// What sending came to: of the packets of the sources, each was sent, is one of `tx.errors`, or
/// was skipped.
#[derive(Debug)]
#[non_exhaustive]
pub struct SendOutcome {
    /// Who sent.
    pub engine: Engine,
    /// The port, with notes added while it ran.
    pub port: PortInfo,
    /// The counters of every transmitting end.
    pub tx: Vec<TxStats>,
    /// What was cut, by TX queue.
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
    pub fn new(engine: Engine, mut port: PortInfo) -> Self {
        if engine == Engine::Kernel {
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
    /// Written, and not taken by the port before the end.
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

/// What ends a session when its interface was set down.
pub(crate) fn is_down(interface: &str) -> Error {
    let error = Error::failed(interface, "the interface is down");
    error.help(format!("`ip link set {interface} up` brings it up"))
}
