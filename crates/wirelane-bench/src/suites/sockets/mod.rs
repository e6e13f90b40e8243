//! The suite `sockets`: rxdrop, txpush and l2fwd of the 2018 AF_XDP zero-copy paper over every port
//! and mode that the machine has.
//!
//! ```text
//!   in the process:   sim:N ─▶ rxdrop │ txpush ─▶ sim:N │ sim:N ─▶ swap ─▶ sim:N
//!
//!   in a lab:         load ─▶ wl-a ═══ wl-b ─▶ rxdrop, l2fwd        a CPU for the load, the
//!                                      wl-b ◀─ txpush               others for the queues
//!                           load ─▶ wl-a ═══ wl-b ─▶ XDP_DROP      yardsticks without a socket
//!                           load ─▶ wl-a ═══ wl-b ─▶ XDP_REDIRECT ─▶ wl-b
//! ```
//!
//! Another program, where it is installed, does the same in turns with ours
//! ([`testpmd`](crate::peers::testpmd)): over AF_XDP in the lab, and, as `sim:` does, with packets
//! that come from nowhere.
//!
//! Every round measures every case once, so that a slow minute of the machine hits all of them. A
//! mode that the machine does not have is skipped, with the reason the port gives.

pub(in crate::suites) mod baseline;
pub(in crate::suites) mod loops;
mod measure;
mod peer;
mod redirect;
pub mod replay;
mod rows;
mod sample;
mod subject;
mod trial;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wirelane_os::affinity;
use wirelane_os::bpf::XdpMode;

use self::subject::{Over, PEER, PortSeries, SUITE, Subject, XDP_DROP, XDP_REDIRECT};
use self::trial::{By, Load, Trial};
use crate::peers::process::patience;
use crate::peers::testpmd::NOWHERE;
use crate::report::Report;
use crate::statistics::rounds::Rounds;
use crate::suite::{Effort, Progress, Suite};
use crate::suites::parts::Parts;
use crate::suites::senders::{self, Seat};
use crate::suites::turns::{self, ProcessPlan};
use crate::task::{RATES, Task};
use crate::wire;
use clap::{Args, ValueEnum};
use std::path::Path;
use wirelane::error::{Error, Result};
use wirelane::mask::{MAX_QUEUES, QueueSet};
use wirelane::placement::Placement;
use wirelane::port::{Backend, Spec, Take};
use wirelane_cli::args;
use wirelane_lab::{Lab, LabConfig, Site};
use wirelane_send::kernel::Pace;

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct SocketsPlan {
    /// The ports. With none: `sim:`, and as root every kind of port in a lab of its own.
    pub ports: Vec<Spec>,
    /// What to do on each of them.
    pub tasks: Vec<Task>,
    /// Forwarding from a port that is named sends by this one, and not back.
    pub to: Option<Spec>,
    /// Who sends to the ports that are named; nobody here if `None`.
    pub load: Option<Arc<Site>>,
    /// Where the sockets among the ports that are named are, if not here: each of their queues has
    /// a sender for itself, and shares a CPU with it.
    pub lab: Option<Arc<Lab>>,
    /// In the lab, drop in the kernel as well, for comparison.
    pub xdp_drop: bool,
    /// In the lab, send back in the kernel as well, for comparison.
    pub xdp_redirect: bool,
    /// Bytes of the packets, without frame check sequence.
    pub sizes: Vec<usize>,
    /// Rounds, which is samples of every figure.
    pub samples: usize,
    /// How long one sample counts.
    pub window: Duration,
    /// No round begins that would end later than this.
    pub limit: Option<Duration>,
    /// The ports named may take all packets away from the host; those in the lab always do.
    pub take_all: bool,
    /// Packets per second that are sent to the ports in the lab; as fast as possible if `None`.
    pub rate: Option<u64>,
    /// In the lab, receive and drop at each of these rates, too, beside the other program.
    pub paced: Vec<u64>,
    /// In the lab, run other programs as well.
    pub peers: bool,
    /// CPUs of the queues, in turn. Otherwise all that the load leaves.
    pub placement: Option<Placement>,
}

impl SocketsPlan {
    /// Sizes of the 2018 AF_XDP zero-copy paper.
    pub const SIZES: [usize; 2] = [64, 1500];

    /// A few minutes.
    pub fn full() -> Self {
        Self {
            ports: Vec::new(),
            tasks: Task::ALL.to_vec(),
            to: None,
            load: None,
            lab: None,
            xdp_drop: true,
            xdp_redirect: true,
            sizes: Self::SIZES.to_vec(),
            samples: Effort::ROUNDS[0],
            window: Duration::from_secs(1),
            limit: None,
            take_all: false,
            rate: None,
            paced: RATES.to_vec(),
            peers: true,
            placement: None,
        }
    }

    /// Less than a minute.
    pub fn quick() -> Self {
        let paced = RATES[..1].to_vec();
        let [_, samples] = Effort::ROUNDS;
        Self { samples, window: Duration::from_millis(100), paced, ..Self::full() }
    }

    /// As `effort` asks for, within a time.
    pub(crate) fn of(effort: &Effort, limit: Option<Duration>) -> Self {
        let plan = if effort.quick { Self::quick() } else { Self::full() };
        let window = effort.window(plan.window);
        Self { samples: effort.rounds(), window, limit, ..plan }
    }
}

/// Measure receiving, sending and forwarding through each kind of port, as "AF_XDP, zero-copy
/// support" (2018) did.
///
/// rxdrop receives and drops; txpush fills frames and sends them; l2fwd receives, swaps the MAC
/// addresses and sends back through the same queue. Each queue has a thread and a CPU of its own.
/// Simulated ports need no privilege. As root, real ports are measured, too, on a veth pair between
/// two temporary network namespaces, under load from a sender inside the kernel, which has the
/// first CPU. --port measures your own ports under the traffic that others send to them, or that
/// --load sends.
#[derive(Args, Clone, Debug)]
pub struct SocketsSuite {
    /// Measure this port instead; may be given several times
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<String>,
    /// In l2fwd send by this port, and not back
    #[arg(long, value_name = "PORT", requires = "ports")]
    to: Option<String>,
    /// Who sends to --port: an interface of yours at the other end of its cable, or `outside`
    /// [default: outside]
    #[arg(long, value_name = "IF", requires = "ports")]
    load: Option<String>,
    /// Let an xdp: port named with --port take all packets away from the host
    #[arg(long, requires = "ports")]
    all: bool,
    /// Measure this case only; may be given several times
    #[arg(long = "case", value_name = "CASE", value_enum)]
    cases: Vec<SocketsCase>,
    /// Packet size without frame check sequence, 60 to 9216 bytes; may be given several times
    #[arg(long = "size", value_name = "BYTES", default_values_t = SocketsPlan::SIZES.map(|size| size as u32),
          value_parser = clap::value_parser!(u32).range(60..=9216))]
    sizes: Vec<u32>,
    /// Length of a sample [default: 1s; with --quick 100ms]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
    /// Send N packets per second to the ports (k, M, G); with --port it takes --load [default: as
    /// many as possible]
    #[arg(long, value_name = "N", value_parser = args::count)]
    rate: Option<u64>,
    /// Pin the threads to these CPUs, in turn
    #[arg(long, value_name = "CPUS", value_parser = args::queues)]
    cpus: Option<QueueSet>,
    #[command(flatten)]
    effort: Effort,
}

/// What is measured of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SocketsCase {
    /// Receive and drop
    Rxdrop,
    /// The same at 0.5, 1, 1.5, 2 and 3 Mpps, beside dpdk-testpmd (not with --port)
    RxdropPaced,
    /// Fill frames and send them
    Txpush,
    /// Receive, swap the MAC addresses, send back
    L2fwd,
    /// Drop in the kernel: a yardstick (not with --port)
    XdpDrop,
    /// Swap the MAC addresses and send back in the kernel, by xdp_redirect_map: a yardstick (not
    /// with --port)
    XdpRedirect,
}

impl Suite for SocketsSuite {
    const NAME: &'static str = SUITE;
    const USUAL: [u64; 2] = [30, 205];

    fn for_report(effort: Effort, _: &Path) -> Self {
        Self {
            ports: Vec::new(),
            to: None,
            load: None,
            all: false,
            cases: Vec::new(),
            sizes: SocketsPlan::SIZES.map(|size| size as u32).to_vec(),
            seconds: None,
            rate: None,
            cpus: None,
            effort,
        }
    }

    fn effort(&self) -> &Effort {
        &self.effort
    }

    fn run(
        &self,
        limit: Option<Duration>,
        report: &mut Report,
        stop: &AtomicBool,
        progress: Progress<'_>,
    ) -> Result<()> {
        // Nothing was said about what to measure.
        let is_everything = self.ports.is_empty() && self.cases.is_empty();
        let replays = if is_everything { REPLAY } else { 0 };
        let mut parts = Parts::new(&[REST, replays], limit);
        let plan = self.plan(parts.limit(0))?;
        sockets(&plan, report, stop, progress)?;
        if !is_everything {
            return Ok(());
        }
        let (own, limit) = (turns::own()?, parts.limit(1));
        let (samples, window) = (plan.samples, plan.window);
        let plan = ProcessPlan { own: &own, samples, window, limit, disk: None };
        replay::replay(&plan, report, stop, progress)
    }
}

impl SocketsSuite {
    fn plan(&self, limit: Option<Duration>) -> Result<SocketsPlan> {
        let default = SocketsPlan::of(&self.effort, limit);
        let named = |case| self.cases.is_empty() || self.cases.contains(&case);
        let tasks = [
            (SocketsCase::Rxdrop, Task::Rxdrop),
            (SocketsCase::Txpush, Task::Txpush),
            (SocketsCase::L2fwd, Task::L2fwd),
        ];
        let is_paced = self.cases.contains(&SocketsCase::RxdropPaced);
        for (case, name) in
            [(SocketsCase::XdpDrop, XDP_DROP), (SocketsCase::XdpRedirect, XDP_REDIRECT)]
        {
            if !self.ports.is_empty() && self.cases.contains(&case) {
                let error = Error::usage(format!("case '{name}'"), "it measures no port");
                return Err(error.help("leave --port out"));
            }
        }
        if is_paced && (!self.ports.is_empty() || self.rate.is_some()) {
            let error = Error::usage("case 'rxdrop-paced'", "its port and rates are fixed");
            return Err(error.help("leave --port and --rate out"));
        }
        let load = wire::load(self.load.as_deref())?;
        if self.rate.is_some() && !self.ports.is_empty() && load.is_none() {
            let error = Error::usage("--rate", "others send to the port, at their own rate");
            return Err(error.help("name the interface at the other end of the cable: --load IF"));
        }
        let cpus = self.cpus.as_ref().filter(|cpus| **cpus != QueueSet::All);
        let placement = cpus.map(|cpus| {
            let cpus: Vec<_> = cpus.members(MAX_QUEUES).map(|cpu| cpu as u32).collect();
            Placement::of(&cpus)
        });
        Ok(SocketsPlan {
            ports: self.ports.iter().map(|port| port.parse()).collect::<Result<_>>()?,
            to: self.to.as_deref().map(str::parse).transpose()?,
            load: load.map(Arc::new),
            tasks: tasks.iter().filter(|(case, _)| named(*case)).map(|(_, task)| *task).collect(),
            xdp_drop: named(SocketsCase::XdpDrop),
            xdp_redirect: named(SocketsCase::XdpRedirect),
            sizes: self.sizes.iter().map(|size| *size as usize).collect(),
            window: self.seconds.unwrap_or(default.window),
            take_all: self.all,
            rate: self.rate,
            paced: match self.cases.is_empty() && self.rate.is_none() {
                true => default.paced,
                false if is_paced => RATES.to_vec(),
                false => Vec::new(),
            },
            peers: self.ports.is_empty(),
            placement: placement.transpose()?,
            ..default
        })
    }
}

/// Measures what `plan` says, and adds the rows to `report`.
///
/// `progress` gets the round and what is measured next. `stop` ends the run early and keeps what
/// was measured.
///
/// # Errors
/// A port that the plan names cannot be opened or fails. In a lab of our own that is a reason to
/// skip it.
pub fn sockets(
    plan: &SocketsPlan,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    check(plan)?;
    let bed = SocketsBed::new(plan, report)?;
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
    report.rows.extend(rows::over_drop(&series));
    Ok(())
}

/// The part of the time that the case `replay` takes.
const REPLAY: u64 = 4;
const REST: u64 = 100 - REPLAY;

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
struct SocketsBed {
    lab: Option<Arc<Lab>>,
    /// How it is sent to.
    pace: Pace,
    /// CPUs of the queues in the lab, and elsewhere.
    queues: Placement,
    all: Placement,
    cores: usize,
}

impl SocketsBed {
    fn new(plan: &SocketsPlan, report: &mut Report) -> Result<Self> {
        let allowed = affinity::allowed_cpus().unwrap_or_default();
        let (cpu, queues) = match allowed.as_slice() {
            [first, rest @ ..] if !rest.is_empty() => (Some(*first), Placement::of(rest)?),
            _ => (None, Placement::default()),
        };
        let lab = match plan.ports.is_empty() {
            true => Self::lab(plan).map_err(|error| skip_all(report, &error)).ok().map(Arc::new),
            false => plan.lab.clone(),
        };
        let pace = Pace { count: None, rate: plan.rate, cpu };
        Ok(Self { lab, pace, queues, all: Placement::default(), cores: allowed.len() })
    }

    fn lab(plan: &SocketsPlan) -> Result<Lab> {
        const ETHERNET_HEADER: usize = 14;
        let longest = plan.sizes.iter().max().copied().unwrap_or(0);
        let mtu = (longest.saturating_sub(ETHERNET_HEADER) as u32).max(LabConfig::default().mtu);
        let lab = Lab::new(LabConfig { mtu, ..LabConfig::default() })?;
        // What the sender redirects arrives in generic mode and at packet sockets, too.
        lab.far.set_gro(true)?;
        Ok(lab)
    }

    fn series(&self, plan: &SocketsPlan) -> Result<Vec<PortSeries>> {
        let mut ports: Vec<(Spec, _, _)> = Vec::new();
        for spec in &plan.ports {
            let label = spec.backend.map_or("port", Backend::as_str);
            ports.push((spec.clone(), label, self.lab.is_some() && label != "sim"));
        }
        if plan.ports.is_empty() {
            ports.push(("sim:1".parse()?, "sim", false));
            if self.cores > 1 {
                ports.push(("sim:2".parse()?, "sim", false));
            }
            for (label, spec) in IN_LAB.iter().filter(|_| self.lab.is_some()) {
                ports.push((spec.parse()?, label, true));
            }
        }
        let mut series = Vec::new();
        for (spec, label, in_lab) in ports {
            // A program in front of the interface has no part in sending: its mode makes no
            // difference.
            let once = |task: &&Task| label != "xdp-generic" || **task != Task::Txpush;
            for task in plan.tasks.iter().filter(once) {
                for size in &plan.sizes {
                    let mut port = spec.clone();
                    if port.backend == Some(Backend::Sim) {
                        port.options.push(("size".into(), size.to_string()));
                    }
                    series.push(PortSeries::new(Subject::Port(port, *task), label, *size, in_lab));
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
            series.extend(drops.map(|(drop, size)| PortSeries::new(drop, XDP_DROP, size, true)));
        }
        if self.lab.is_some() && plan.xdp_redirect {
            let redirect = |size: &usize| {
                let subject = Subject::XdpRedirect(XdpMode::Native);
                PortSeries::new(subject, XDP_REDIRECT, *size, true)
            };
            series.extend(plan.sizes.iter().map(redirect));
        }
        Ok(series)
    }

    /// What the other program does, and what is measured only for comparison with it.
    fn beside_peers(&self, plan: &SocketsPlan) -> Result<Vec<PortSeries>> {
        let peer = |task, over, label, in_lab| {
            PortSeries::new(Subject::Peer(task, over), label, PEER_SIZE, in_lab)
        };
        let mut series = Vec::new();
        if plan.tasks.contains(&Task::L2fwd) {
            series.push(peer(Task::L2fwd, Over::Nothing, NOWHERE, false));
        }
        if self.lab.is_none() {
            return Ok(series);
        }
        let over_xdp = |task| peer(task, Over::Xdp, PEER, true);
        series.extend(plan.tasks.iter().copied().map(over_xdp));
        for rate in &plan.paced {
            let (label, spec) = IN_LAB[1];
            let ours = Subject::Port(spec.parse()?, Task::Rxdrop);
            let pair = [PortSeries::new(ours, label, PEER_SIZE, true), over_xdp(Task::Rxdrop)];
            series.extend(pair.map(|one| PortSeries { paced: Some(*rate), ..one }));
        }
        Ok(series)
    }

    fn trial<'a>(
        &'a self,
        one: &'a PortSeries,
        plan: &'a SocketsPlan,
        stop: &'a AtomicBool,
    ) -> Trial<'a> {
        let lab = self.lab.as_ref().filter(|_| one.in_lab);
        let pace = Pace { rate: one.paced.or(self.pace.rate), ..self.pace };
        let near = lab.map(|lab| &lab.near).or(plan.load.as_deref());
        let seats = match (&plan.lab, &one.subject) {
            (Some(_), Subject::Port(spec, _)) if one.in_lab => seats(spec, self.cores),
            _ => Vec::new(),
        };
        let (by, own) = match seats.is_empty() {
            // Who sends has a CPU for itself.
            true if near.is_some() => (By::One(pace), self.queues.clone()),
            true => (By::One(pace), self.all.clone()),
            false => {
                let cpus: Vec<_> = seats.iter().map(|seat| seat.cpu).collect();
                (By::Each(seats), Placement::of(&cpus).unwrap_or_default())
            }
        };
        Trial {
            subject: &one.subject,
            size: one.size,
            take: if one.in_lab || plan.take_all { Take::All } else { Take::Nothing },
            window: plan.window,
            patience: patience(plan.limit),
            placement: plan.placement.clone().unwrap_or(own),
            site: lab.map(|lab| &lab.far),
            to: plan.to.as_ref().filter(|_| !one.in_lab),
            load: near.map(|site| Load { site, by }),
            stop,
        }
    }
}

/// Those of the queues of a port in a lab that has as many as there are CPUs.
fn seats(port: &Spec, cores: usize) -> Vec<Seat> {
    let has = |seat: &Seat| {
        port.queues.as_ref().is_none_or(|queues| queues.contains(usize::from(seat.queue)))
    };
    senders::seats(cores as u16).into_iter().filter(has).collect()
}

/// Says of every port in a lab that there is none.
fn skip_all(report: &mut Report, error: &Error) {
    for (case, _) in IN_LAB.into_iter().chain([(XDP_DROP, ""), (XDP_REDIRECT, "")]) {
        report.skip(SUITE, case, error.to_string());
    }
}

/// Sizes of packets are of the plan, not of a port.
fn check(plan: &SocketsPlan) -> Result<()> {
    for port in plan.ports.iter().chain(&plan.to) {
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
