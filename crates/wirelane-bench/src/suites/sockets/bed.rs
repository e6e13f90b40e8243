//! The ports of a run, their lab, and their senders.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wirelane::error::{Error, Result};
use wirelane::placement::Placement;
use wirelane::port::{Backend, Spec, Take};
use wirelane_lab::{Lab, Site};
use wirelane_os::bpf::XdpMode;
use wirelane_send::kernel::LivePace;

use super::rows;
use super::subject::{Over, PEER, SocketsMeasurement, SocketsSubject, XDP_DROP, XDP_REDIRECT};
use super::trial::{SenderKind, SocketsLoad, SocketsTrial};
use crate::job::{Case, Job, SamplingPlan};
use crate::peers::process::patience;
use crate::peers::testpmd::NOWHERE;
use crate::row::Params;
use crate::suites::bed;
use crate::suites::senders::{self, Seat};
use crate::task::Task;

/// The cases of a run.
#[derive(Clone, Debug, Default)]
pub(in crate::suites) struct SocketsSelection {
    /// The ports. If there are none: `sim:`, and as root every kind of port in a lab.
    pub(in crate::suites) ports: Vec<Spec>,
    /// The tasks on each of them.
    pub(in crate::suites) tasks: Vec<Task>,
    /// With forwarding, the port that named ports send to. `None` sends back.
    pub(in crate::suites) to: Option<Spec>,
    /// The sender for the named ports; `None` if other hosts send.
    pub(in crate::suites) load: Option<Arc<Site>>,
    /// The lab of the named socket ports, if they are in one. Each of their queues has a separate
    /// sender on the same CPU.
    pub(in crate::suites) lab: Option<Arc<Lab>>,
    /// In the lab, also drop in the kernel, for comparison.
    pub(in crate::suites) xdp_drop: bool,
    /// In the lab, also send back in the kernel, for comparison.
    pub(in crate::suites) xdp_redirect: bool,
    /// Bytes of the packets, without frame check sequence.
    pub(in crate::suites) sizes: Vec<usize>,
    /// The named ports may take all packets away from the host. Ports in the lab always do.
    pub(in crate::suites) take_all: bool,
    /// Packets per second that are sent to the ports in the lab; as fast as possible if `None`.
    pub(in crate::suites) rate: Option<u64>,
    /// In the lab, also receive and drop at each of these rates, for Wirelane and the other
    /// program.
    pub(in crate::suites) paced: Vec<u64>,
    /// In the lab, also run other programs.
    pub(in crate::suites) peers: bool,
    /// CPUs of the queues, in turn. By default, all CPUs but the sender's.
    pub(in crate::suites) placement: Option<Placement>,
}

/// Measures all wanted cases.
///
/// # Errors
/// A named port cannot be opened or fails. A port in the lab is then skipped.
pub(in crate::suites) fn sockets(wanted: &SocketsSelection, job: &mut Job<'_>) -> Result<()> {
    check(wanted)?;
    let bed = &SocketsBed::new(wanted, job)?;
    let case = |one: SocketsMeasurement| {
        let title = format!("{} on {}, {} bytes", one.case(), one.label, one.size);
        let (name, label) = (one.case(), one.label);
        let peer = one.is_peer().then_some(label);
        let is_required = !one.in_lab && peer.is_none();
        let measure = move |job: &mut Job<'_>| {
            let (nature, sample) = bed.trial(&one, wanted, job.plan, job.stop).run(job)?;
            Ok(rows::sample(&one, &nature, &sample))
        };
        let case = Case::new(name, Params::default(), title, measure).of(peer);
        case.skipped_as(label).required(is_required).once()
    };
    let cases = bed.all(wanted)?.into_iter().map(case).collect();
    let first = job.report.rows.len();
    job.take(cases)?;
    let rows = rows::finished(job.report.rows.split_off(first));
    job.report.rows.extend(rows);
    Ok(())
}

/// Bytes of the packets for other programs.
const PEER_SIZE: usize = 64;

/// Ports in a lab: the name, and the port to open.
const IN_LAB: [(&str, &str); 4] = [
    ("xdp-zerocopy", "xdp:wl-b?mode=zerocopy"),
    ("xdp-native", "xdp:wl-b?mode=native"),
    ("xdp-generic", "xdp:wl-b?mode=generic"),
    ("packet", "packet:wl-b?bypass=on"),
];

/// The lab, the senders and the CPUs.
struct SocketsBed {
    lab: Option<Arc<Lab>>,
    /// The pace of the sender.
    pace: LivePace,
    /// CPUs of the queues if there is a sender, and otherwise.
    queues: Placement,
    all: Placement,
    cores: usize,
}

impl SocketsBed {
    fn new(wanted: &SocketsSelection, job: &mut Job<'_>) -> Result<Self> {
        let (cpu, queues) = bed::sender_and_receivers();
        let longest = wanted.sizes.iter().max().copied().unwrap_or(0);
        let lab = match wanted.ports.is_empty() {
            true => bed::cable(1, longest).map_err(|error| skip_all(job, &error)).ok(),
            false => None,
        };
        let lab = lab.map(Arc::new).or_else(|| wanted.lab.clone());
        let pace = LivePace { count: None, rate: wanted.rate, cpu };
        let queues = if cpu.is_some() { Placement::of(&queues)? } else { Placement::default() };
        Ok(Self { lab, pace, queues, all: Placement::default(), cores: bed::cpus().len() })
    }

    fn all(&self, wanted: &SocketsSelection) -> Result<Vec<SocketsMeasurement>> {
        let mut ports: Vec<(Spec, _, _)> = Vec::new();
        for spec in &wanted.ports {
            let label = spec.backend.map_or("port", Backend::as_str);
            ports.push((spec.clone(), label, self.lab.is_some() && label != "sim"));
        }
        if wanted.ports.is_empty() {
            ports.push(("sim:1".parse()?, "sim", false));
            if self.cores > 1 {
                ports.push(("sim:2".parse()?, "sim", false));
            }
            for (label, spec) in IN_LAB.iter().filter(|_| self.lab.is_some()) {
                ports.push((spec.parse()?, label, true));
            }
        }
        let mut all = Vec::new();
        for (spec, label, in_lab) in ports {
            // The XDP program of the interface is not used for sending, so its mode makes no
            // difference.
            let once = |task: &&Task| label != "xdp-generic" || **task != Task::Txpush;
            for task in wanted.tasks.iter().filter(once) {
                for size in &wanted.sizes {
                    let mut port = spec.clone();
                    if port.backend == Some(Backend::Sim) {
                        port.options.push(("size".into(), size.to_string()));
                    }
                    all.push(SocketsMeasurement::new(
                        SocketsSubject::Port(port, *task),
                        label,
                        *size,
                        in_lab,
                    ));
                }
            }
        }
        if wanted.peers && wanted.sizes.contains(&PEER_SIZE) {
            all.extend(self.beside_peers(wanted)?);
        }
        if self.lab.is_some() && wanted.xdp_drop {
            let modes = [XdpMode::Native, XdpMode::Generic];
            let of = |mode| wanted.sizes.iter().map(move |size| (mode, *size));
            let drops = modes.into_iter().flat_map(of);
            let drops = drops.map(|(mode, size)| (SocketsSubject::XdpDrop(mode), size));
            all.extend(
                drops.map(|(drop, size)| SocketsMeasurement::new(drop, XDP_DROP, size, true)),
            );
        }
        if self.lab.is_some() && wanted.xdp_redirect {
            let redirect = |size: &usize| {
                let subject = SocketsSubject::XdpRedirect(XdpMode::Native);
                SocketsMeasurement::new(subject, XDP_REDIRECT, *size, true)
            };
            all.extend(wanted.sizes.iter().map(redirect));
        }
        Ok(all)
    }

    /// The cases of the other program, and Wirelane's cases for comparison.
    fn beside_peers(&self, wanted: &SocketsSelection) -> Result<Vec<SocketsMeasurement>> {
        let peer = |task, over, label, in_lab| {
            SocketsMeasurement::new(SocketsSubject::Peer(task, over), label, PEER_SIZE, in_lab)
        };
        let mut all = Vec::new();
        if wanted.tasks.contains(&Task::L2fwd) {
            all.push(peer(Task::L2fwd, Over::Nothing, NOWHERE, false));
        }
        if self.lab.is_none() {
            return Ok(all);
        }
        let over_xdp = |task| peer(task, Over::Xdp, PEER, true);
        all.extend(wanted.tasks.iter().copied().map(over_xdp));
        for rate in &wanted.paced {
            let (label, spec) = IN_LAB[1];
            let ours = SocketsSubject::Port(spec.parse()?, Task::Rxdrop);
            let pair =
                [SocketsMeasurement::new(ours, label, PEER_SIZE, true), over_xdp(Task::Rxdrop)];
            all.extend(pair.map(|one| SocketsMeasurement { paced: Some(*rate), ..one }));
        }
        Ok(all)
    }

    fn trial<'a>(
        &'a self,
        one: &'a SocketsMeasurement,
        wanted: &'a SocketsSelection,
        plan: SamplingPlan,
        stop: &'a AtomicBool,
    ) -> SocketsTrial<'a> {
        let lab = self.lab.as_ref().filter(|_| one.in_lab);
        let pace = LivePace { rate: one.paced.or(self.pace.rate), ..self.pace };
        let near = lab.map(|lab| &lab.near).or(wanted.load.as_deref());
        let seats = match (&wanted.lab, &one.subject) {
            (Some(_), SocketsSubject::Port(spec, _)) if one.in_lab => seats(spec, self.cores),
            _ => Vec::new(),
        };
        let (by, own) = match seats.is_empty() {
            // The sender has an exclusive CPU.
            true if near.is_some() => (SenderKind::One(pace), self.queues.clone()),
            true => (SenderKind::One(pace), self.all.clone()),
            false => {
                let cpus: Vec<_> = seats.iter().map(|seat| seat.cpu).collect();
                (SenderKind::Each(seats), Placement::of(&cpus).unwrap_or_default())
            }
        };
        SocketsTrial {
            subject: &one.subject,
            size: one.size,
            take: if one.in_lab || wanted.take_all { Take::All } else { Take::Nothing },
            window: plan.window,
            patience: patience(plan.limit),
            placement: wanted.placement.clone().unwrap_or(own),
            site: lab.map(|lab| &lab.far),
            to: wanted.to.as_ref().filter(|_| !one.in_lab),
            load: near.map(|site| SocketsLoad { site, by }),
            stop,
        }
    }
}

/// The seats of the queues of a port, in a lab with a queue for each CPU.
fn seats(port: &Spec, cores: usize) -> Vec<Seat> {
    let has = |seat: &Seat| {
        port.queues.as_ref().is_none_or(|queues| queues.contains(usize::from(seat.queue)))
    };
    senders::seats(cores as u16).into_iter().filter(has).collect()
}

/// Skips every port of a lab.
fn skip_all(job: &mut Job<'_>, error: &Error) {
    for (case, _) in IN_LAB.into_iter().chain([(XDP_DROP, ""), (XDP_REDIRECT, "")]) {
        job.skip(case, error);
    }
}

/// The size of packets is a property of the plan, so ports must not set it.
fn check(wanted: &SocketsSelection) -> Result<()> {
    for port in wanted.ports.iter().chain(&wanted.to) {
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
