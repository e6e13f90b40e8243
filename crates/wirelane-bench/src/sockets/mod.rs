//! The suite `sockets`: rxdrop, txpush and l2fwd of source 001 over every port and mode that the
//! machine has.
//!
//! ```text
//!   in the process:   sim:N ─▶ rxdrop │ txpush ─▶ sim:N │ sim:N ─▶ swap ─▶ sim:N
//!
//!   in a lab:         load ─▶ wl-a ═══ wl-b ─▶ rxdrop, l2fwd        a CPU for the load, the
//!                                      wl-b ◀─ txpush               others for the queues
//!                           load ─▶ wl-a ═══ wl-b ─▶ XDP_DROP      a baseline without a socket
//! ```
//!
//! Another program, where it is installed, does the same in turns with ours ([`PEER`](super::peers::testpmd::PROGRAM)):
//! over AF_XDP in the lab, and, as `sim:` does, with packets that come from nowhere.
//!
//! Every round measures every case once, so that a slow minute of the machine hits all of them. A
//! mode that the machine does not have is skipped, with the reason the port gives.

pub(crate) mod baseline;
mod loops;
mod peer;
mod rows;
mod sample;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wirelane_os::affinity;
use wirelane_os::bpf::XdpMode;

use self::peer::Over;
use self::sample::{Load, Nature, Subject, Trial};
pub use self::sample::{Lost, Sample, Threads};
use super::report::Report;
use super::rounds::Rounds;
use wirelane::error::{Error, Result};
use wirelane::placement::Placement;
use wirelane::port::{Backend, Spec, Take};
use wirelane_lab::live::Pace;
use wirelane_lab::{Lab, LabConfig};

const SUITE: &str = "sockets";

/// What is done with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Receive and give back.
    Rxdrop,
    /// Fill frames and send.
    Txpush,
    /// Receive, exchange the addresses, and send back through the same queue.
    L2fwd,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rxdrop, Self::Txpush, Self::L2fwd];

    /// Its name in source 001 and in the rows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rxdrop => "rxdrop",
            Self::Txpush => "txpush",
            Self::L2fwd => "l2fwd",
        }
    }
}

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The ports. With none: `sim:`, and as root every kind of port in a lab of its own.
    pub ports: Vec<Spec>,
    /// What to do on each of them.
    pub kinds: Vec<Kind>,
    /// In the lab, drop in the kernel as well, for comparison.
    pub xdp_drop: bool,
    /// Bytes of the packets, without frame check sequence.
    pub sizes: Vec<usize>,
    /// Rounds: samples of every figure.
    pub samples: usize,
    /// How long one sample counts.
    pub window: Duration,
    /// No round begins that would end later than this.
    pub limit: Option<Duration>,
    /// The ports named may take all packets away from the host; those in the lab always do.
    pub take_all: bool,
    /// Packets per second that are sent to the ports in the lab; as fast as possible if `None`.
    pub rate: Option<u64>,
    /// In the lab, run other programs as well.
    pub peers: bool,
    /// CPUs of the queues, in turn. Otherwise all that the load leaves.
    pub placement: Option<Placement>,
}

impl Plan {
    /// Sizes of source 001.
    pub const SIZES: [usize; 2] = [64, 1500];

    /// A few minutes.
    pub fn full() -> Self {
        Self {
            ports: Vec::new(),
            kinds: Kind::ALL.to_vec(),
            xdp_drop: true,
            sizes: Self::SIZES.to_vec(),
            samples: 5,
            window: Duration::from_secs(1),
            limit: None,
            take_all: false,
            rate: None,
            peers: true,
            placement: None,
        }
    }

    /// Less than a minute.
    pub fn quick() -> Self {
        let limit = Some(Duration::from_secs(50));
        Self { samples: 3, window: Duration::from_millis(100), limit, ..Self::full() }
    }
}

/// Measures what `plan` says, and adds the rows to `report`.
///
/// `progress` is told the round and what is measured next; `stop` ends the run early, with what
/// was measured until then.
///
/// # Errors
/// A port that the plan names cannot be opened or fails. In a lab of our own that is a reason to
/// skip it.
pub fn sockets(
    plan: &Plan,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    check(plan)?;
    let bed = Bed::new(plan, report)?;
    let mut series = bed.series(plan)?;
    let mut commands = Vec::new();
    'rounds: for round in Rounds::new(plan.samples, plan.limit) {
        for one in series.iter_mut().filter(|one| one.refused.is_none()) {
            progress(round, &format!("{} on {}, {} bytes", one.case(), one.label, one.size));
            let outcome = bed.trial(one, plan, stop).run(&mut commands);
            commands.drain(..).for_each(|command| report.environment.add_command(command));
            match outcome {
                Ok(Some((nature, sample))) => {
                    one.nature = Some(nature);
                    one.samples.push(sample);
                }
                Ok(None) => break 'rounds,
                Err(error) if one.in_lab || one.is_peer() => one.refused = Some(error),
                Err(error) => return Err(error),
            }
            if stop.load(Ordering::Relaxed) {
                break 'rounds;
            }
        }
    }
    for one in &series {
        report.rows.extend(rows::rows(one));
        if let Some(error) = &one.refused {
            report.skip(SUITE, one.label, error.to_string());
        }
    }
    Ok(())
}

/// All samples of one case.
struct Series {
    subject: Subject,
    /// The port for people, where it is skipped.
    label: &'static str,
    size: usize,
    in_lab: bool,
    /// Packets per second that are sent to it, if that belongs to the case.
    paced: Option<u64>,
    nature: Option<Nature>,
    samples: Vec<Sample>,
    refused: Option<Error>,
}

impl Series {
    fn new(subject: Subject, label: &'static str, size: usize, in_lab: bool) -> Self {
        let (paced, nature, samples, refused) = (None, None, Vec::new(), None);
        Self { subject, label, size, in_lab, paced, nature, samples, refused }
    }

    fn case(&self) -> &'static str {
        match &self.subject {
            _ if self.paced.is_some() => PACED,
            Subject::Port(_, kind) | Subject::Peer(kind, _) => kind.as_str(),
            Subject::XdpDrop(_) => XDP_DROP,
        }
    }

    fn is_peer(&self) -> bool {
        matches!(self.subject, Subject::Peer(..))
    }
}

const XDP_DROP: &str = "xdp-drop";
/// rxdrop, and the packets come at a rate that leaves a receiver time to sleep.
pub(super) const PACED: &str = "rxdrop-paced";
/// Packets per second of that.
const PACE: u64 = 500_000;
const PEER: &str = super::peers::testpmd::PROGRAM;
/// The peer with devices that have packets from nowhere.
pub(super) const NOWHERE: &str = "dpdk-testpmd over net_null";
/// Bytes of the packets with which the peer is measured.
const PEER_SIZE: usize = 64;

/// Ports in a lab: a name, and what to open.
const IN_LAB: [(&str, &str); 4] = [
    ("xdp-zerocopy", "xdp:wl-b?mode=zerocopy"),
    ("xdp-native", "xdp:wl-b?mode=native"),
    ("xdp-generic", "xdp:wl-b?mode=generic"),
    ("packet", "packet:wl-b?bypass=on"),
];

/// Where the ports are.
struct Bed {
    lab: Option<Lab>,
    /// How it is sent to.
    pace: Pace,
    /// CPUs of the queues in the lab, and elsewhere.
    queues: Placement,
    all: Placement,
    cores: usize,
}

impl Bed {
    fn new(plan: &Plan, report: &mut Report) -> Result<Self> {
        let allowed = affinity::allowed_cpus().unwrap_or_default();
        let (cpu, queues) = match allowed.as_slice() {
            [first, rest @ ..] if !rest.is_empty() => (Some(*first), Placement::of(rest)?),
            _ => (None, Placement::default()),
        };
        let lab = match plan.ports.is_empty() {
            true => Self::lab(plan).map_err(|error| skip_all(report, &error)).ok(),
            false => None,
        };
        let pace = Pace { count: None, rate: plan.rate, cpu };
        Ok(Self { lab, pace, queues, all: Placement::default(), cores: allowed.len() })
    }

    fn lab(plan: &Plan) -> Result<Lab> {
        const ETHERNET_HEADER: usize = 14;
        let longest = plan.sizes.iter().max().copied().unwrap_or(0);
        let mtu = (longest.saturating_sub(ETHERNET_HEADER) as u32).max(LabConfig::default().mtu);
        let lab = Lab::new(LabConfig { mtu, ..LabConfig::default() })?;
        // What the sender redirects arrives in generic mode and at packet sockets, too.
        lab.far.set_gro(true)?;
        Ok(lab)
    }

    fn series(&self, plan: &Plan) -> Result<Vec<Series>> {
        let mut ports: Vec<(Spec, _, _)> = Vec::new();
        for spec in &plan.ports {
            let label = spec.backend.map_or("port", Backend::as_str);
            ports.push((spec.clone(), label, false));
        }
        if plan.ports.is_empty() {
            ports.push(("sim:1".parse()?, "sim", false));
            if self.cores > 1 {
                ports.push(("sim:2".parse()?, "sim", false));
            }
        }
        for (label, spec) in IN_LAB.iter().filter(|_| self.lab.is_some()) {
            ports.push((spec.parse()?, label, true));
        }
        let mut series = Vec::new();
        for (spec, label, in_lab) in ports {
            // A program in front of the interface has no part in sending: its mode makes no difference.
            let once = |kind: &&Kind| label != "xdp-generic" || **kind != Kind::Txpush;
            for kind in plan.kinds.iter().filter(once) {
                for size in &plan.sizes {
                    let mut port = spec.clone();
                    if port.backend == Some(Backend::Sim) {
                        port.options.push(("size".into(), size.to_string()));
                    }
                    series.push(Series::new(Subject::Port(port, *kind), label, *size, in_lab));
                }
            }
        }
        if plan.peers && plan.sizes.contains(&PEER_SIZE) {
            series.extend(self.beside_peers(plan)?);
        }
        if self.lab.is_some() && plan.xdp_drop {
            let modes = [XdpMode::Native, XdpMode::Generic];
            let of = |mode| plan.sizes.iter().map(move |size| (mode, *size));
            let drops = modes.into_iter().flat_map(of);
            let drops = drops.map(|(mode, size)| (Subject::XdpDrop(mode), size));
            series.extend(drops.map(|(drop, size)| Series::new(drop, XDP_DROP, size, true)));
        }
        Ok(series)
    }

    /// What the other program does, and what is measured only beside it.
    fn beside_peers(&self, plan: &Plan) -> Result<Vec<Series>> {
        let peer = |kind, over, label, in_lab| {
            Series::new(Subject::Peer(kind, over), label, PEER_SIZE, in_lab)
        };
        let mut series = Vec::new();
        if plan.kinds.contains(&Kind::L2fwd) {
            series.push(peer(Kind::L2fwd, Over::Nothing, NOWHERE, false));
        }
        if self.lab.is_none() {
            return Ok(series);
        }
        let over_xdp = |kind| peer(kind, Over::Xdp, PEER, true);
        series.extend(plan.kinds.iter().copied().map(over_xdp));
        if plan.kinds.contains(&Kind::Rxdrop) && plan.rate.is_none() {
            let (label, spec) = IN_LAB[1];
            let ours = Subject::Port(spec.parse()?, Kind::Rxdrop);
            let pair = [Series::new(ours, label, PEER_SIZE, true), over_xdp(Kind::Rxdrop)];
            series.extend(pair.map(|one| Series { paced: Some(PACE), ..one }));
        }
        Ok(series)
    }

    fn trial<'a>(&'a self, one: &'a Series, plan: &'a Plan, stop: &'a AtomicBool) -> Trial<'a> {
        let lab = self.lab.as_ref().filter(|_| one.in_lab);
        let pace = Pace { rate: one.paced.or(self.pace.rate), ..self.pace };
        let load = |lab: &'a Lab| Load { site: &lab.near, pace };
        let own = if lab.is_some() { &self.queues } else { &self.all };
        Trial {
            subject: &one.subject,
            size: one.size,
            take: if one.in_lab || plan.take_all { Take::All } else { Take::Nothing },
            window: plan.window,
            placement: plan.placement.as_ref().unwrap_or(own),
            site: lab.map(|lab| &lab.far),
            load: lab.map(load),
            stop,
        }
    }
}

/// Says of every port in a lab that there is none.
fn skip_all(report: &mut Report, error: &Error) {
    for (case, _) in IN_LAB.into_iter().chain([(XDP_DROP, "")]) {
        report.skip(SUITE, case, error.to_string());
    }
}

/// Sizes of packets are of the plan, not of a port.
fn check(plan: &Plan) -> Result<()> {
    for port in &plan.ports {
        let object = || format!("port '{port}'");
        if port.backend == Some(Backend::File) {
            return Err(Error::usage(object(), "a file is no socket").help("name an interface"));
        }
        if port.options.iter().any(|(key, _)| key == "size") {
            let error = Error::usage(object(), "the size of packets is not its own here");
            return Err(error.help("write --size"));
        }
    }
    Ok(())
}
