//! The suite `scaling`: the gain of more queues, each with a thread (the 2010 multiqueue socket
//! paper).
//!
//! One to as many queues as CPUs receive and drop packets. The queues of the simulated interface
//! cost so little that the effect of threads on each other dominates. With sockets on a veth pair,
//! the CPU of a queue does all the work for its packets, from sending to reading.
//!
//! ```text
//!   CPU i:   TX queue i ─▶ veth ─▶ RX queue i ─▶ socket i ─▶ rxdrop
//! ```
//!
//! On a busy machine, the rate also depends on the other load. `cpu_efficiency` does not, because
//! it compares the CPU time of a packet: a value below 1 is the cost of threads and shared caches.
//! A law is fitted to each round ([`Scalability`]). Its predictions for more CPUs than the machine
//! has are rows of the separate case `rx-projected`, and never mixed with measured ones.

mod capture;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use wirelane::error::{Error, Result};
use wirelane::mask::{QueueMask, QueueSet};
use wirelane::port::{self, Backend, OpenOptions, Spec, Take};

use crate::effort::Effort;
use crate::job::{Job, SamplingPlan};
use crate::row::{FigureRow, Param, Params, params};
use crate::statistics::scalability::Scalability;
use crate::suite::Suite;
use crate::suites::bed;
use crate::suites::sockets::{self, SocketsSelection};
use crate::task::Task;
use crate::wire;

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
    const NAME: &'static str = "scaling";
    const USUAL: [u64; 2] = [6, 65];

    fn in_report(&mut self, _: &Effort, folder: &Path) {
        self.disk = Some(folder.to_owned());
    }

    fn plan(&self, effort: &Effort) -> SamplingPlan {
        sockets::plan(effort)
    }

    fn run(&self, job: &mut Job<'_>) -> Result<()> {
        let begin = Instant::now();
        let load = wire::load(self.load.as_deref())?.map(Arc::new);
        let wanted = SocketsSelection { take_all: self.all, load, ..SocketsSelection::default() };
        let port: Option<Spec> = self.port.as_deref().map(str::parse).transpose()?;
        let is_wanted = |case| match self.cases.is_empty() {
            true => case == ScalingCase::Rx || !job.effort.quick && port.is_none(),
            false => self.cases.contains(&case),
        };
        let [rx, capture] = [ScalingCase::Rx, ScalingCase::Capture].map(is_wanted);
        if rx {
            scaling(wanted, port.as_ref(), job)?;
        }
        if capture {
            job.own()?;
            let plan =
                SamplingPlan { window: 2 * job.plan.window, limit: job.left(begin), ..job.plan };
            capture::capture(self.disk.as_deref(), &mut job.with(plan))?;
        }
        Ok(())
    }
}

/// Measures more and more queues of `port`, or of a simulated interface and of a lab.
///
/// # Errors
/// The named port cannot be opened or fails.
fn scaling(wanted: SocketsSelection, port: Option<&Spec>, job: &mut Job<'_>) -> Result<()> {
    let cores = (bed::cpus().len() as u32).clamp(1, MOST);
    let (cores, lab) = match port {
        Some(port) => (queues_of(port, wanted.take_all)?.min(cores), None),
        None => {
            let lab = bed::cable(cores as u16, 0);
            let skip = |error: Error| SOCKETS.iter().for_each(|(name, _)| job.skip(name, &error));
            (cores, lab.map_err(skip).ok().map(Arc::new))
        }
    };
    let counts = counts(cores);
    let curves = match port {
        Some(port) => vec![Curve::of(port, &counts)],
        None => Curve::all(&counts, lab.is_some())?,
    };
    let ports = curves.iter().flat_map(|curve| curve.ports.iter().cloned()).collect();
    let (tasks, sizes) = (vec![Task::Rxdrop], vec![SIZE as usize]);
    let first = job.report.rows.len();
    sockets::sockets(&SocketsSelection { ports, lab, tasks, sizes, ..wanted }, job)?;
    let measured = job.report.rows.split_off(first);
    for curve in &curves {
        let of_curve = measured.iter().filter(|row| row.params.has(("port", curve.name)));
        let of_curve: Vec<_> = of_curve.collect();
        // The mode and, for the user's port, its interface and its sender.
        let first = of_curve.iter().find(|row| row.metric == "packets_per_s");
        let names = ["port", "mode", "interface", "load"];
        let is_told = |(name, _): &&(&str, Param)| names.contains(name);
        let params: Vec<_> =
            first.iter().flat_map(|row| row.params.0.iter().filter(is_told).cloned()).collect();
        let samples = |metric, queues: u32| {
            let queues = queues.to_string();
            let mut rows = of_curve.iter();
            let row = rows.find(|row| row.metric == metric && row.params.has(("queues", &queues)));
            row.map_or_else(Vec::new, |row| row.samples.clone())
        };
        let figures = |n: &u32| QueueFigures {
            queues: *n,
            rates: samples("packets_per_s", *n),
            cpu: samples("cpu_ns_per_packet", *n),
        };
        rows(&Params(params), &counts.iter().map(figures).collect::<Vec<_>>(), cores, job);
    }
    Ok(())
}

/// Sockets in a lab: their names, and the ports to open.
const SOCKETS: [(&str, &str); 2] = [("packet", "packet:wl-b"), ("xdp", "xdp:wl-b?mode=native")];

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
        // A bare name for receiving means `packet:`.
        let name = port.backend.map_or("packet", Backend::as_str);
        Self { name, ports: counts.iter().map(first).collect() }
    }

    /// The simulated interface and, with a lab, its sockets.
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

/// How many queues the user's port receives from.
fn queues_of(port: &Spec, take_all: bool) -> Result<u32> {
    wire::interface(port)?;
    if port.queues.is_some() {
        let error = Error::usage(format!("port '{port}'"), "the suite chooses the queues");
        return Err(error.help("leave @QUEUES out"));
    }
    let take = if take_all { Take::All } else { Take::Nothing };
    let mask = QueueMask { rx: QueueSet::All, ..QueueMask::NONE };
    let opened = port::open(port, &OpenOptions::default().take(take).mask(mask))?;
    Ok((opened.info().queues.len() as u32).max(1))
}

/// The samples with this number of queues, by round.
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

fn rows(port: &Params, figures: &[QueueFigures], cores: u32, job: &mut Job<'_>) {
    let Some(single) = figures.first().filter(|figures| !figures.rates.is_empty()) else {
        return;
    };
    let row = |case, queues: u32, metric, samples| -> FigureRow {
        let cpus = match queues {
            1 => "one",
            _ if queues == cores => "all",
            _ => "some",
        };
        let params = params![size = SIZE, queues = u64::from(queues), cpus = cpus];
        job.subject(case, port.clone().and(params.0)).row(metric, samples)
    };
    // One law per round, fitted to the figures of that round.
    let laws: Vec<Option<Scalability>> = (0..single.rates.len())
        .map(|round| {
            let point = |of: &QueueFigures| Some((of.queues, *of.rates.get(round)?));
            Scalability::fit(&figures.iter().filter_map(point).collect::<Vec<_>>())
        })
        .collect();
    let mut rows = Vec::new();
    for QueueFigures { queues, rates, cpu } in figures {
        let alone = |(rate, single): (&f64, &f64)| rate / (f64::from(*queues) * single);
        let efficiency = rates.iter().zip(&single.rates).map(alone).collect();
        let cpu = cpu.iter().zip(&single.cpu).map(|(cpu, single)| single / cpu).collect();
        let lost = laws.iter().flatten().map(|law| law.lost_share(*queues)).collect::<Vec<_>>();
        rows.push(row("rx", *queues, "packets_per_s", rates.clone()));
        rows.push(row("rx", *queues, "efficiency", efficiency));
        rows.push(row("rx", *queues, "cpu_efficiency", cpu));
        if !lost.is_empty() {
            rows.push(row("rx", *queues, "lost_share", lost));
        }
    }
    // Rates of zero give no finite figures.
    rows.retain(|row| row.samples.iter().all(|one| one.is_finite()));
    let laws: Vec<Scalability> = laws.into_iter().flatten().collect();
    for queues in [2, 4, 8, 16].map(|factor| factor * cores) {
        if !laws.is_empty() && queues <= 4 * MOST {
            let samples = laws.iter().map(|law| law.rate_of(queues)).collect();
            rows.push(row("rx-projected", queues, "packets_per_s", samples));
        }
    }
    job.report.rows.extend(rows);
    if laws.is_empty() {
        job.skip("rx-projected", "a projection takes two CPUs at least to measure on");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::job::measured;
    use crate::report::BenchReport;

    fn figures(queues: u32, rates: &[f64], cpu: &[f64]) -> QueueFigures {
        QueueFigures { queues, rates: rates.to_vec(), cpu: cpu.to_vec() }
    }

    fn report(of_queues: &[QueueFigures], cores: u32) -> BenchReport {
        let plan = SamplingPlan { samples: 1, window: Duration::ZERO, limit: None };
        let work = |mut job: Job<'_>| {
            rows(&params![port = "sim"], of_queues, cores, &mut job);
            Ok(())
        };
        measured("scaling", plan, work).unwrap()
    }

    #[test]
    fn projections_are_a_case_of_their_own() {
        let one = figures(1, &[10.0, 11.0], &[5.0, 5.0]);
        let report = report(&[one, figures(2, &[19.0, 20.0], &[8.0, 5.0])], 2);
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
        // The projection is at most linear and at least the measured rate.
        let [least, ..] = projected[0].summary().unwrap();
        assert!(least > 20.0 && least < 44.0, "{projected:?}");
        assert!(report.rows.iter().all(|row| row.params.has(("port", "sim"))));
    }

    #[test]
    fn one_cpu_projects_nothing() {
        let alone = report(&[figures(1, &[10.0], &[5.0])], 1);
        assert_eq!((alone.rows.len(), alone.skipped.len()), (3, 1));
        assert!(report(&[figures(1, &[], &[])], 1).rows.is_empty());
    }

    #[test]
    fn as_many_queues_as_cpus() {
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(12), [1, 2, 3, 4, 5, 6, 7, 8, 12]);
        assert_eq!(counts(64).len(), 11);
    }
}
