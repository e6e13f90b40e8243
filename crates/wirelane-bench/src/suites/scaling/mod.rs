//! The suite `scaling`: what more queues, each with a thread, bring (the 2010 multiqueue socket
//! paper).
//!
//! One to as many queues as there are CPUs receive and drop: of the simulated interface, which
//! costs so little that what threads do to each other is what shows, and of sockets on a veth pair,
//! where the CPU of a queue does all that is done for its packets, from sending them to reading
//! them.
//!
//! ```text
//!   CPU i:   TX queue i ─▶ veth ─▶ RX queue i ─▶ socket i ─▶ rxdrop
//! ```
//!
//! On a machine that is busy with other things the rate also shows what those took;
//! `cpu_efficiency` does not, as it compares the CPU time of a packet: what is below 1 there, the
//! threads or the caches that they share cost. A law is fitted to each round ([`Scalability`]);
//! what it says about more CPUs than the machine has is in rows of a case of its own,
//! `rx-projected`, and never among the measured ones.

mod capture;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use wirelane_os::affinity;

use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::statistics::scalability::Scalability;
use crate::suite::{Effort, Progress, Suite};
use crate::suites::sockets::{self, SocketsPlan};
use crate::suites::turns::{self, ProcessPlan};
use crate::task::Task;
use crate::wire;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wirelane::error::{Error, Result};
use wirelane::mask::{QueueMask, QueueSet};
use wirelane::port::{self, Backend, OpenOptions, Spec, Take};
use wirelane_lab::{Lab, LabConfig};

const SUITE: &str = "scaling";
const SIZE: u64 = 64;
/// Queues of a simulated interface.
const MOST: u32 = 64;

/// Measure how receiving scales from one queue to one per CPU, each with a socket and a thread.
///
/// It does so on the simulated interface and, as root, on packet and AF_XDP sockets of a veth pair
/// between two temporary network namespaces, where each queue shares its CPU with who sends to it.
/// With --port it does so on sockets of yours, under the traffic that others send to them.
///
/// Without --quick, wirelane capture also reads and writes with one and two queues, beside one and
/// two processes of dd, which show how the machine itself scales.
///
/// The rows rx-projected extend the curve to more CPUs than the machine has by the Universal
/// Scalability Law. They are a projection, not a measurement.
#[derive(Args, Clone, Debug)]
pub struct ScalingSuite {
    /// Receive from this port instead (packet:IF or xdp:IF): case rx only
    #[arg(long, value_name = "PORT", conflicts_with = "cases")]
    port: Option<String>,
    /// Who sends to --port: an interface of yours at the other end of its cable, or `outside`
    /// [default: outside]
    #[arg(long, value_name = "IF", requires = "port")]
    load: Option<String>,
    /// Let an xdp: port named with --port take all packets away from the host
    #[arg(long, requires = "port")]
    all: bool,
    /// Measure this case only; may be given several times [default: both; with --quick rx]
    #[arg(long = "case", value_name = "CASE", value_enum)]
    cases: Vec<ScalingCase>,
    /// Directory on the disk to write to [default: none; skips writing to disk]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    #[command(flatten)]
    effort: Effort,
}

/// What is measured with one queue and with more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScalingCase {
    /// Receive and drop, in the benchmark's own process
    Rx,
    /// Run wirelane capture with one and two queues: read, write to memory and to disk, beside dd
    Capture,
}

impl Suite for ScalingSuite {
    const NAME: &'static str = SUITE;
    const USUAL: [u64; 2] = [6, 65];

    fn for_report(effort: Effort, folder: &Path) -> Self {
        let (port, load, all, cases) = (None, None, false, Vec::new());
        Self { port, load, all, cases, disk: Some(folder.to_owned()), effort }
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
        let begin = Instant::now();
        let plan = SocketsPlan {
            take_all: self.all,
            load: wire::load(self.load.as_deref())?.map(Arc::new),
            ..SocketsPlan::of(&self.effort, limit)
        };
        let port: Option<Spec> = self.port.as_deref().map(str::parse).transpose()?;
        let is_wanted = |case| match self.cases.is_empty() {
            true => case == ScalingCase::Rx || !self.effort.quick && self.port.is_none(),
            false => self.cases.contains(&case),
        };
        if is_wanted(ScalingCase::Rx) {
            scaling(&plan, port.as_ref(), report, stop, progress)?;
        }
        if is_wanted(ScalingCase::Capture) {
            let (own, samples, window) = (turns::own()?, plan.samples, 2 * plan.window);
            let limit = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
            let disk = self.disk.as_deref();
            let plan = ProcessPlan { own: &own, samples, window, limit, disk };
            capture::capture(&plan, report, stop, progress)?;
        }
        Ok(())
    }
}

/// Measures, and adds the rows to `report`; `plan` says how often and how long, and whom to stop
/// for is as in [`sockets::sockets`]. Queues are those of `port`, or of a simulated interface and
/// of a lab.
///
/// # Errors
/// As there.
pub fn scaling(
    plan: &SocketsPlan,
    port: Option<&Spec>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let cores = affinity::allowed_cpus().map_or(1, |cpus| cpus.len() as u32).min(MOST);
    let (cores, lab) = match port {
        Some(port) => (queues_of(port, plan.take_all)?.min(cores), None),
        None => (cores, lab(cores, report)),
    };
    let counts = counts(cores);
    let curves = match port {
        Some(port) => vec![Curve::of(port, &counts)],
        None => Curve::all(&counts, lab.is_some())?,
    };
    let plan = SocketsPlan {
        ports: curves.iter().flat_map(|curve| curve.ports.iter().cloned()).collect(),
        lab,
        tasks: vec![Task::Rxdrop],
        sizes: vec![SIZE as usize],
        xdp_drop: false,
        xdp_redirect: false,
        paced: Vec::new(),
        peers: false,
        ..plan.clone()
    };
    let mut measured = Report { rows: Vec::new(), skipped: Vec::new(), ..report.clone() };
    sockets::sockets(&plan, &mut measured, stop, progress)?;
    for skipped in measured.skipped {
        report.skip(SUITE, skipped.case, skipped.reason);
    }
    for curve in &curves {
        let rows_of_curve = measured.rows.iter().filter(|row| row.params.has(("port", curve.name)));
        let rows_of_curve: Vec<_> = rows_of_curve.collect();
        // In which mode it receives, and, of a port of the user's, where, and who sends to it.
        let first = rows_of_curve.iter().find(|row| row.metric == "packets_per_s");
        let names = ["port", "mode", "interface", "load"];
        let is_told = |(name, _): &&(&str, Param)| names.contains(name);
        let params: Vec<_> =
            first.iter().flat_map(|row| row.params.0.iter().filter(is_told).cloned()).collect();
        let samples = |metric, queues: u32| {
            let queues = ("queues", Param::Number(queues.into()));
            let mut rows = rows_of_curve.iter();
            let row = rows.find(|row| row.metric == metric && row.params.0.contains(&queues));
            row.map_or_else(Vec::new, |row| row.samples.clone())
        };
        let figures = |n: &u32| QueueFigures {
            queues: *n,
            rates: samples("packets_per_s", *n),
            cpu: samples("cpu_ns_per_packet", *n),
        };
        rows(&params, &counts.iter().map(figures).collect::<Vec<_>>(), cores, report);
    }
    Ok(())
}

/// Sockets in a lab: their name, and what to open.
const SOCKETS: [(&str, &str); 2] = [("packet", "packet:wl-b"), ("xdp", "xdp:wl-b?mode=native")];

/// A cable with a queue for each CPU; if there can be none, its sockets are skipped.
fn lab(cores: u32, report: &mut Report) -> Option<Arc<Lab>> {
    let make = || {
        let lab = Lab::new(LabConfig { queues: cores as u16, ..LabConfig::default() })?;
        // What the kernel redirects arrives without a program, too.
        lab.far.set_gro(true)?;
        Ok(lab)
    };
    let refused = |error: Error| {
        SOCKETS.into_iter().for_each(|(name, _)| report.skip(SUITE, name, error.to_string()));
    };
    make().map_err(refused).ok().map(Arc::new)
}

/// The same port with more and more queues.
struct Curve {
    /// The kind of port, as rows have it.
    name: &'static str,
    ports: Vec<Spec>,
}

impl Curve {
    /// The first queues of a port.
    fn of(port: &Spec, counts: &[u32]) -> Self {
        let first = |count: &u32| {
            let mut queues = QueueSet::NONE;
            for queue in 0..*count as usize {
                queues.insert(queue);
            }
            Spec { queues: Some(queues), ..port.clone() }
        };
        // A bare name that only looks is `packet:`.
        let name = port.backend.map_or("packet", Backend::as_str);
        Self { name, ports: counts.iter().map(first).collect() }
    }

    /// The simulated interface, and where there is a lab its sockets.
    fn all(counts: &[u32], in_lab: bool) -> Result<Vec<Self>> {
        let sim = |count: &u32| format!("sim:{count}?flows=1024").parse();
        let ports = counts.iter().map(sim).collect::<Result<_>>()?;
        let mut all = vec![Self { name: "sim", ports }];
        for (_, port) in SOCKETS.iter().filter(|_| in_lab) {
            all.push(Self::of(&port.parse()?, counts));
        }
        Ok(all)
    }
}

/// How many queues a port of the user's receives from.
fn queues_of(port: &Spec, take_all: bool) -> Result<u32> {
    if !matches!(port.backend, None | Some(Backend::Packet | Backend::Xdp)) {
        let error = Error::usage(format!("port '{port}'"), "it is no socket of an interface");
        return Err(error.help("write packet:IF or xdp:IF"));
    }
    if port.queues.is_some() {
        let error = Error::usage(format!("port '{port}'"), "the suite chooses the queues");
        return Err(error.help("leave @QUEUES out"));
    }
    let take = if take_all { Take::All } else { Take::Nothing };
    let mask = QueueMask { rx: QueueSet::All, ..QueueMask::NONE };
    let opened = port::open(port, &OpenOptions::default().take(take).mask(mask))?;
    Ok((opened.info().queues.len() as u32).max(1))
}

/// What was measured with so many queues, by round.
struct QueueFigures {
    queues: u32,
    /// Packets per second.
    rates: Vec<f64>,
    /// Nanoseconds of CPU time per packet.
    cpu: Vec<f64>,
}

/// All numbers of queues up to eight, then powers of two and all.
fn counts(cores: u32) -> Vec<u32> {
    (1..=cores).filter(|n| *n <= 8 || n.is_power_of_two() || *n == cores).collect()
}

fn rows(port: &[(&'static str, Param)], figures: &[QueueFigures], cores: u32, report: &mut Report) {
    let Some(single) = figures.first().filter(|figures| !figures.rates.is_empty()) else {
        return;
    };
    let of_queues = |queues: u32| {
        let cpus = match queues {
            1 => "one",
            _ if queues == cores => "all",
            _ => "some",
        };
        [
            ("size", Param::Number(SIZE)),
            ("queues", Param::Number(queues.into())),
            ("cpus", Param::Text(cpus)),
        ]
    };
    let row = |case, queues: u32, metric, unit, samples| Row {
        suite: SUITE,
        case,
        peer: None,
        params: Params([port, &of_queues(queues)].concat()),
        metric,
        unit,
        samples,
        source: None,
    };
    // One law per round, of what was measured in that round.
    let laws: Vec<Option<Scalability>> = (0..single.rates.len())
        .map(|round| {
            let point = |of: &QueueFigures| Some((of.queues, *of.rates.get(round)?));
            Scalability::fit(&figures.iter().filter_map(point).collect::<Vec<_>>())
        })
        .collect();
    for QueueFigures { queues, rates, cpu } in figures {
        report.rows.push(row("rx", *queues, "packets_per_s", "1/s", rates.clone()));
        let alone = |(rate, single): (&f64, &f64)| rate / (f64::from(*queues) * single);
        let efficiency = rates.iter().zip(&single.rates).map(alone).collect();
        report.rows.push(row("rx", *queues, "efficiency", "1", efficiency));
        let efficiency = cpu.iter().zip(&single.cpu).map(|(cpu, single)| single / cpu);
        report.rows.push(row("rx", *queues, "cpu_efficiency", "1", efficiency.collect()));
        let lost = laws.iter().flatten().map(|law| law.lost_share(*queues)).collect::<Vec<_>>();
        if !lost.is_empty() {
            report.rows.push(row("rx", *queues, "lost_share", "1", lost));
        }
    }
    // Where nothing came, nothing follows from it.
    report.rows.retain(|row| row.suite != SUITE || row.samples.iter().all(|one| one.is_finite()));
    let laws: Vec<Scalability> = laws.into_iter().flatten().collect();
    if laws.is_empty() {
        let reason = "a projection takes two CPUs at least to measure on".to_owned();
        report.skip(SUITE, "rx-projected", reason);
        return;
    }
    for queues in [2, 4, 8, 16].map(|factor| factor * cores).into_iter().filter(|n| *n <= 4 * MOST)
    {
        let samples = laws.iter().map(|law| law.rate_of(queues)).collect();
        report.rows.push(row("rx-projected", queues, "packets_per_s", "1/s", samples));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(queues: u32, rates: &[f64], cpu: &[f64]) -> QueueFigures {
        QueueFigures { queues, rates: rates.to_vec(), cpu: cpu.to_vec() }
    }

    #[test]
    fn projections_are_a_case_of_their_own() {
        let mut report = Report::new("test".into());
        let one = figures(1, &[10.0, 11.0], &[5.0, 5.0]);
        rows(
            &[("port", Param::Text("sim"))],
            &[one, figures(2, &[19.0, 20.0], &[8.0, 5.0])],
            2,
            &mut report,
        );
        let of = |case, metric| {
            let rows =
                report.rows.iter().filter(move |row| (row.case, row.metric) == (case, metric));
            rows.collect::<Vec<_>>()
        };
        assert_eq!(of("rx", "packets_per_s").len(), 2);
        assert_eq!(of("rx", "efficiency")[1].samples, [0.95, 20.0 / 22.0]);
        assert_eq!(of("rx", "cpu_efficiency")[1].samples, [0.625, 1.0]);
        let projected = of("rx-projected", "packets_per_s");
        assert_eq!(projected.len(), 4);
        // No more than linear, no less than what was measured.
        let [least, ..] = projected[0].summary().unwrap();
        assert!(least > 20.0 && least < 44.0, "{projected:?}");
        assert!(report.rows.iter().all(|row| row.params.0.contains(&("port", Param::Text("sim")))));
    }

    #[test]
    fn one_cpu_projects_nothing() {
        let mut report = Report::new("test".into());
        rows(&[("port", Param::Text("sim"))], &[figures(1, &[10.0], &[5.0])], 1, &mut report);
        assert_eq!((report.rows.len(), report.skipped.len()), (3, 1));
        rows(&[("port", Param::Text("sim"))], &[figures(1, &[], &[])], 1, &mut report);
        assert_eq!(report.rows.len(), 3);
    }

    #[test]
    fn as_many_queues_as_cpus() {
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(12), [1, 2, 3, 4, 5, 6, 7, 8, 12]);
        assert_eq!(counts(64).len(), 11);
    }
}
