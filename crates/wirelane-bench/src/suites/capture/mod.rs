//! The suite `capture`: the 2011 multiqueue BPF paper's six conditions, with one thread and with
//! one per queue.
//!
//! Packets are only read, written to memory (`/dev/shm`), or written to a disk. The source copies
//! each packet by read(2), as a TAP device does (`tap:`), or shares memory with the kernel, which
//! still copies into it (`packet:`, a ring of AF_PACKET) or not (`xdp:`, where the driver can; rows
//! say in which mode it was). The simulated interface costs next to nothing and shows what the
//! capture itself can do. `single` is a capture whose queues are all on one thread (the 2011
//! multiqueue BPF paper: test_sqbpf), `multi` one with a thread per queue (test_mqbpf).
//!
//! Cycles per packet are split as the source's programs print them: spent processing (user space),
//! in system calls, both together (not sleeping), and from receiving a batch until its memory was
//! given back. Cycles are those of the time stamp counter. A sender of ours runs on the same CPUs;
//! its time is not counted, but while it runs nothing else does on that CPU.

pub mod compress;
pub mod cost;
pub mod print;
pub mod several;
pub mod short;
mod timed;
pub mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wirelane::session::Session;

use wirelane_os::affinity;
use wirelane_os::clock::{self, CpuTime};

use crate::published;
use crate::report::Report;
use crate::row::{Param, Params, Row, Source};
use crate::statistics::rounds::Rounds;
use crate::suite::{Effort, Progress, Suite};
use crate::suites::parts::{self, Parts};
use crate::suites::senders::{self, Senders, Sending};
use crate::suites::turns::{self, ProcessPlan};
use crate::wire::{self, OUTSIDE};
use clap::Args;
use wirelane::error::{Error, Result};
use wirelane::mask::{QueueMask, QueueSet};
use wirelane::pcap::WriterOptions;
use wirelane::port::{self, Backend, OpenOptions, PortMode, Spec, Take};
use wirelane::session::capture::{Capture, CaptureConfig, CaptureOutcome, OutputConfig};
use wirelane_lab::leftovers::{self, Folder};
use wirelane_lab::{Lab, LabConfig, Site};

const SUITE: &str = "capture";
/// Kinds of ports; all but the first are in a lab.
const PORTS: [&str; 4] = ["sim", "tap", "packet", "xdp"];
/// The TAP device, in the namespace of those who send to it.
const TAP: &str = "wl-read";
/// Queues of every port: as many as there are senders.
const QUEUES: u16 = 2;
/// A run ends before it has written more than this.
const MOST_BYTES: u64 = 1 << 30;
const FLOWS: u64 = 64;
/// How long a sample of a condition takes in a report: there are 48.
const BRIEF: Duration = Duration::from_millis(150);
/// The part of the time that the simulated interface has.
const SHARE: f64 = 0.25;
/// How many seconds the parts take within a report, with `--quick` and in full: the conditions,
/// `short`, `cpu`, `several`, `print`, `compress`, `write`.
const PARTS: [[u64; 7]; 2] = [[36, 2, 26, 8, 6, 6, 6], [90, 5, 80, 35, 15, 20, 16]];
/// A run lasts longer until something has come, but no longer than this: from nothing no cost
/// follows.
const STALL: Duration = Duration::from_secs(3);

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct CapturePlan {
    /// Rounds, which is samples of every figure.
    pub samples: usize,
    /// How long one sample takes, at least.
    pub window: Duration,
    /// No round begins that would end later than this.
    pub limit: Option<Duration>,
    /// A folder on the disk to write to; without, that is skipped.
    pub disk: Option<PathBuf>,
    /// Ports to capture from, under what others send to them. With none: `sim:`, and as root
    /// interfaces in a lab.
    pub ports: Vec<Spec>,
    /// Who sends to these; nobody here if `None`.
    pub load: Option<Arc<Site>>,
    /// These may take all packets away from the host; those in the lab always do.
    pub take_all: bool,
}

impl CapturePlan {
    /// A few minutes.
    pub fn full() -> Self {
        let (limit, disk, ports, load, take_all) = (None, None, Vec::new(), None, false);
        let [samples, _] = Effort::ROUNDS;
        Self { samples, window: Duration::from_secs(1), limit, disk, ports, load, take_all }
    }

    /// Less than a minute.
    pub fn quick() -> Self {
        let [_, samples] = Effort::ROUNDS;
        Self { samples, window: Duration::from_millis(100), ..Self::full() }
    }

    /// As `effort` asks for, within a time.
    pub(crate) fn of(effort: &Effort, limit: Option<Duration>) -> Self {
        let plan = if effort.quick { Self::quick() } else { Self::full() };
        let window = if effort.brief { BRIEF } else { plan.window };
        Self { samples: effort.rounds(), window, limit, ..plan }
    }
}

/// Measure capturing in the six conditions of "Multiqueue support for bpf" (2011): reading, writing
/// to memory and to disk, with copying and without, with one thread and with one per queue.
///
/// The simulated interface needs no privilege. As root, packets also pass between two temporary
/// network namespaces. Cycles per packet are split into processing, system calls, both, and the
/// time until the memory of a batch was returned.
#[derive(Args, Clone, Debug)]
pub struct CaptureSuite {
    /// Directory on the disk to write to [default: none; skips writing to disk]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Capture from this port instead, what others send to it; may be given several times
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<String>,
    /// Who sends to --port: an interface of yours at the other end of its cable, or `outside`
    /// [default: outside]
    #[arg(long, value_name = "IF", requires = "ports")]
    load: Option<String>,
    /// Let an xdp: port named with --port take all packets away from the host
    #[arg(long, requires = "ports")]
    all: bool,
    #[command(flatten)]
    effort: Effort,
}

impl Suite for CaptureSuite {
    const NAME: &'static str = SUITE;
    const USUAL: [u64; 2] = parts::sums(&PARTS);

    fn for_report(effort: Effort, folder: &Path) -> Self {
        // The report's folder is where the user wants large files to be.
        let (ports, load, all) = (Vec::new(), None, false);
        Self { disk: Some(folder.to_owned()), ports, load, all, effort }
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
        let own = turns::own()?;
        let disk = self.disk.clone();
        let ports: Vec<Spec> = self.ports.iter().map(|port| port.parse()).collect::<Result<_>>()?;
        if !ports.is_empty() {
            let plan = CapturePlan::of(&self.effort, limit);
            let load = wire::load(self.load.as_deref())?.map(Arc::new);
            let plan = CapturePlan { disk, ports, load, take_all: self.all, ..plan };
            return capture(&plan, report, stop, progress);
        }
        let mut parts = Parts::new(&PARTS[usize::from(!self.effort.quick)], limit);
        let plan = CapturePlan { disk, ..CapturePlan::of(&self.effort, parts.limit(0)) };
        capture(&plan, report, stop, progress)?;
        // Then our command as a process, beside other programs. A short run has no time for the
        // disk.
        let plan = ProcessPlan {
            own: &own,
            samples: plan.samples,
            window: 3 * plan.window,
            limit: None,
            disk: self.disk.as_deref().filter(|_| limit.is_none()),
        };
        let mut of = |part| ProcessPlan { limit: parts.limit(part), ..plan };
        short::short(&of(1), report, stop, progress)?;
        cost::cost(&of(2), report, stop, progress)?;
        several::several(&of(3), report, stop, progress)?;
        print::print(&of(4), report, stop, progress)?;
        compress::compress(&of(5), report, stop, progress)?;
        write::write(&of(6), report, stop, progress)
    }
}

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Destination {
    None,
    Memory,
    Disk,
}

impl Destination {
    const ALL: [Self; 3] = [Self::None, Self::Memory, Self::Disk];

    const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// One condition and its runs.
struct Condition {
    port: &'static str,
    /// A port of the user's, and who sends to it.
    named: Option<Spec>,
    load: Option<Arc<Site>>,
    target: Destination,
    single: bool,
    /// Bytes of a packet; 0 where they are as long as they come.
    size: u64,
    /// The mode of the port in force, its queues and its interface; none before the first run.
    nature: Option<Nature>,
    samples: Vec<CaptureRun>,
    refused: Option<Error>,
}

/// The counts of one run.
#[derive(Clone, Debug)]
struct CaptureRun {
    packets: u64,
    dropped: Option<u64>,
    bytes: u64,
    elapsed: Duration,
    cpu: CpuTime,
    /// Nanoseconds from receiving to giving back, over all batches.
    held_ns: u64,
    nature: Nature,
}

type Nature = (PortMode, u64, Option<String>);

/// Measures what `plan` says, and adds the rows to `report`.
///
/// `progress` gets the round and what is measured next. `stop` ends the run early and keeps what
/// was measured.
///
/// # Errors
/// A port that the plan names cannot be opened or fails. Otherwise what cannot be measured is
/// skipped with its reason.
pub fn capture(
    plan: &CapturePlan,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let bed = CaptureBed::new(plan, report);
    let begin = Instant::now();
    let (mut cases, mut others): (Vec<_>, Vec<_>) =
        bed.cases(plan, report).into_iter().partition(|case| case.port == "sim");
    // Rounds of their own for what needs no interface: promises are about it, and a single sample
    // proves nothing.
    let limit = plan.limit.map(|limit| limit.mul_f64(SHARE));
    bed.rounds(&mut cases, &CapturePlan { limit, ..plan.clone() }, stop, progress);
    let limit = plan.limit.map(|limit| limit.saturating_sub(begin.elapsed()));
    bed.rounds(&mut others, &CapturePlan { limit, ..plan.clone() }, stop, progress);
    cases.append(&mut others);
    for case in cases {
        report.rows.extend(case.rows(report.machine.cycles_per_ns));
        match case.refused {
            Some(error) if case.named.is_some() => return Err(error),
            Some(error) => report.skip(SUITE, case.port, error.to_string()),
            None => {}
        }
    }
    Ok(())
}

/// Where the ports and the files are.
struct CaptureBed {
    lab: Option<Lab>,
    memory: Option<Folder>,
    disk: Option<Folder>,
}

impl CaptureBed {
    fn new(plan: &CapturePlan, report: &mut Report) -> Self {
        let lab = || -> Result<Lab> {
            let lab = Lab::new(LabConfig { queues: QUEUES, ..LabConfig::default() })?;
            // What the sender redirects arrives at packet sockets, too.
            lab.far.set_gro(true)?;
            Ok(lab)
        };
        let lab = match plan.ports.is_empty().then(lab) {
            None => None,
            Some(Ok(lab)) => Some(lab),
            Some(Err(error)) => {
                let reason = error.to_string();
                PORTS[1..].iter().for_each(|port| report.skip(SUITE, port, reason.clone()));
                None
            }
        };
        let mut skip = |case, error: Error| report.skip(SUITE, case, error.to_string());
        let mut folder = |case, path: Option<&Path>| match path.map(Folder::new) {
            Some(Ok(folder)) => Some(folder),
            Some(Err(error)) => {
                skip(case, error);
                None
            }
            None => None,
        };
        let memory = folder("memory", Some(Path::new(leftovers::MEMORY)));
        let disk = folder("disk", plan.disk.as_deref());
        Self { lab, memory, disk }
    }

    /// Measures the cases in turns.
    fn rounds(
        &self,
        cases: &mut [Condition],
        plan: &CapturePlan,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u32, &str),
    ) {
        for round in Rounds::new(plan.samples, plan.limit) {
            for case in cases.iter_mut().filter(|case| case.refused.is_none()) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                progress(round, &case.name());
                match self.run(case, plan, stop) {
                    Ok(sample) => {
                        case.nature = Some(sample.nature.clone());
                        case.samples.push(sample);
                    }
                    Err(error) => case.refused = Some(error),
                }
            }
        }
    }

    fn cases(&self, plan: &CapturePlan, report: &mut Report) -> Vec<Condition> {
        if self.disk.is_none() {
            let reason = "no folder on a disk was named".to_owned();
            report.skip(SUITE, "disk", reason);
        }
        let mut ports: Vec<(&'static str, Option<Spec>, &[u64])> = Vec::new();
        for spec in &plan.ports {
            let label = spec.backend.map_or("port", Backend::as_str);
            let sizes = if plan.load.is_some() { &[64, 1500][..] } else { &[0] };
            ports.push((label, Some(spec.clone()), sizes));
        }
        if plan.ports.is_empty() {
            let own = if self.lab.is_some() { &PORTS[..] } else { &PORTS[..1] };
            ports.extend(own.iter().map(|port| (*port, None, &[64, 1500][..])));
        }
        let mut cases = Vec::new();
        for (port, named, sizes) in ports {
            for target in Destination::ALL {
                if target != Destination::None && self.folder(target).is_none() {
                    continue;
                }
                for size in sizes {
                    for single in [true, false] {
                        cases.push(Condition {
                            port,
                            named: named.clone(),
                            load: plan.load.clone().filter(|_| named.is_some()),
                            target,
                            single,
                            size: *size,
                            nature: None,
                            samples: Vec::new(),
                            refused: None,
                        });
                    }
                }
            }
        }
        cases
    }

    fn folder(&self, target: Destination) -> Option<&Folder> {
        match target {
            Destination::None => None,
            Destination::Memory => self.memory.as_ref(),
            Destination::Disk => self.disk.as_ref(),
        }
    }

    fn run(&self, case: &Condition, plan: &CapturePlan, stop: &AtomicBool) -> Result<CaptureRun> {
        let lab = self.lab.as_ref().filter(|_| case.port != "sim");
        let spec: Spec = match (&case.named, lab) {
            (Some(named), _) => named.clone(),
            (None, Some(_)) if case.port == "tap" => {
                format!("tap:{TAP}?queues={QUEUES}").parse()?
            }
            (None, Some(lab)) => format!("{}:{}", case.port, lab.far.interface()).parse()?,
            (None, None) => format!("sim:{QUEUES}?size={}&flows=256", case.size).parse()?,
        };
        let is_ours = case.named.is_none();
        let options = OpenOptions::default()
            .mask(QueueMask { rx: QueueSet::All, ..QueueMask::NONE })
            .take(if is_ours || plan.take_all { Take::All } else { Take::Nothing })
            // Nobody is reached over an interface of ours.
            .take_management(is_ours)
            // What is sent here is addressed to nobody.
            .promiscuous(case.load.is_some());
        let open = || port::open(&spec, &options);
        let mut port = match lab {
            Some(lab) => lab.far.inside(open)??,
            None => open()?,
        };
        let info = port.info();
        let nature = (info.mode, info.queues.len() as u64, info.interface.clone());
        let folder = self.folder(case.target);
        folder.map_or(Ok(()), Folder::make)?;
        let output = folder.map(|folder| {
            let path = folder.file("capture.pcapng");
            OutputConfig { options: WriterOptions::of_path(&path), path, split: !case.single }
        });
        let config = CaptureConfig { output, single: case.single, ..CaptureConfig::default() };
        let held = Arc::new(AtomicU64::new(0));
        timed::time(&mut port, &held);
        // What is given to a TAP device its program reads; what is sent by one end of a cable
        // arrives at the other.
        let from = lab.map(|lab| match case.port {
            "tap" => (&lab.far, TAP),
            _ => (&lab.near, lab.near.interface()),
        });
        let load = case.load.as_deref();
        let from = from.or_else(|| load.map(|site| (site, site.interface())));
        // Those of an interface come first: while they are made nothing is to be captured.
        let ready = from.map(|(site, interface)| senders(site, interface, case)).transpose()?;
        let capture = case.on_its_cpus(|| Capture::start(vec![port], &config));
        // All files are open, or never will be.
        folder.inspect(|folder| folder.remove());
        let capture = capture?;
        let (before, begin) = (clock::process_cpu(), Instant::now());
        let sending = ready.map(Senders::start).transpose()?;
        self.wait(&capture, case, begin + plan.window, stop);
        let sent = sending.map(Sending::stop).transpose()?;
        let sent = sent.map_or_else(CpuTime::default, |sent| sent.cpu);
        let outcome = capture.join();
        let (elapsed, cpu) = (begin.elapsed(), clock::process_cpu().since(before));
        sample(outcome, elapsed, cpu.since(sent), held.load(Ordering::Relaxed), nature)
    }

    /// Until `end`, or there is enough in the file. A machine that is busy elsewhere may leave a
    /// run no time at all: it is longer then.
    fn wait(&self, capture: &Session<Capture>, case: &Condition, end: Instant, stop: &AtomicBool) {
        const SLICE: Duration = Duration::from_millis(5);
        let most = MOST_BYTES / (case.size.max(64) + 32);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let full = case.target != Destination::None && capture.written() >= most;
            let stopped = stop.load(Ordering::Relaxed);
            let has_come = || capture.queues().iter().any(|queue| queue.packets > 0);
            let is_over = left.is_zero() && (has_come() || Instant::now() >= end + STALL);
            let slice = if left.is_zero() { SLICE } else { left.min(SLICE) };
            if is_over || full || stopped || capture.wait(slice) {
                return;
            }
        }
    }
}

/// A sender for every queue behind `interface`.
fn senders<'a>(site: &'a Site, interface: &str, case: &Condition) -> Result<Senders<'a>> {
    let (frames, seats) = (senders::frames(FLOWS, case.size)?, senders::seats(QUEUES));
    Senders::each(site, interface, &frames, &seats, case.port == "packet")
}

fn sample(
    outcome: CaptureOutcome,
    elapsed: Duration,
    cpu: CpuTime,
    held_ns: u64,
    nature: Nature,
) -> Result<CaptureRun> {
    if let Some(error) = outcome.errors.into_iter().next() {
        return Err(error);
    }
    let packets = outcome.queues.iter().map(|queue| queue.packets).sum();
    if packets == 0 {
        let cause = format!("not one packet was captured in {:.1} s", elapsed.as_secs_f64());
        return Err(Error::failed("capture", cause).help("look for what is to send them"));
    }
    let dropped = outcome.queues.iter().map(|queue| queue.dropped.total()).sum();
    let bytes = outcome.queues.iter().map(|queue| queue.bytes.unwrap_or(0)).sum();
    Ok(CaptureRun { packets, dropped, bytes, elapsed, cpu, held_ns, nature })
}

impl Condition {
    /// Starts threads where they belong: a CPU for each thread that receives, which it shares with
    /// that which writes for it. Otherwise one thread would have the help of a second CPU as soon
    /// as it writes, and two would not be twice as many. Beside an interface the senders keep all
    /// CPUs busy, and the scheduler decides.
    fn on_its_cpus<T>(&self, start: impl FnOnce() -> T) -> T {
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        let count = if self.single { 1 } else { usize::from(QUEUES) };
        let own = cpus.get(..count).filter(|_| self.port == "sim");
        // What cannot be pinned is measured where it is.
        let pinned = own.is_some_and(|own| affinity::pin_to(own).is_ok());
        let started = start();
        if pinned {
            let _ = affinity::pin_to(&cpus);
        }
        started
    }

    fn name(&self) -> String {
        let threads = if self.single { "one thread" } else { "a thread per queue" };
        let target = match self.target {
            Destination::None => "reading",
            Destination::Memory => "writing to memory",
            Destination::Disk => "writing to disk",
        };
        match &self.named {
            Some(named) if self.size == 0 => format!("{named} {target}, {threads}"),
            Some(named) => format!("{named} {target}, {threads}, {} bytes", self.size),
            None => format!("{} {target}, {threads}, {} bytes", self.port, self.size),
        }
    }

    fn rows(&self, cycles_per_ns: Option<f64>) -> Vec<Row> {
        let Some((mode, queues, interface)) = self.nature.clone() else { return Vec::new() };
        let mut params = vec![
            ("port", Param::Text(self.port)),
            ("mode", Param::Text(mode.as_str())),
            ("target", Param::Text(self.target.as_str())),
        ];
        // Packets of others are as long as they are.
        params.extend((self.size > 0).then_some(("size", Param::Number(self.size))));
        params.push(("queues", Param::Number(queues)));
        if let Some(interface) = interface.filter(|_| self.named.is_some()) {
            let load = self.load.as_ref().map_or(OUTSIDE, |load| load.interface());
            params.push(("interface", Param::Name(interface)));
            params.push(("load", Param::Name(load.to_owned())));
        }
        let params = Params(params);
        let row = |metric, unit, samples: Vec<f64>, source| Row {
            suite: SUITE,
            case: if self.single { "single" } else { "multi" },
            peer: None,
            params: params.clone(),
            metric,
            unit,
            samples,
            source,
        };
        let each =
            |of: &dyn Fn(&CaptureRun) -> f64| self.samples.iter().map(of).collect::<Vec<_>>();
        let mut rows = vec![
            row(
                "bits_per_s",
                "bit/s",
                each(&|s| s.bytes as f64 * 8.0 / s.seconds()),
                self.source(),
            ),
            row("packets_per_s", "1/s", each(&|s| s.packets as f64 / s.seconds()), None),
            row("packets_received", "1", each(&|s| s.packets as f64), None),
        ];
        if self.samples.iter().all(|sample| sample.dropped.is_some()) {
            let dropped = each(&|s| s.dropped.unwrap_or(0) as f64);
            rows.push(row("packets_dropped", "1", dropped, None));
        }
        let (scale, unit) = cycles_per_ns.map_or((1.0, "ns"), |cycles| (cycles, "cycles"));
        let per =
            |of: &dyn Fn(&CaptureRun) -> f64| each(&|s| of(s) * scale / s.packets.max(1) as f64);
        let ns = |time: Duration| time.as_nanos() as f64;
        let split: [(&'static str, Vec<f64>); 4] = [
            ("cost_processing", per(&|s| ns(s.cpu.user))),
            ("cost_in_system_calls", per(&|s| ns(s.cpu.system))),
            ("cost_not_sleeping", per(&|s| ns(s.cpu.total()))),
            ("cost_until_reclaimed", per(&|s| s.held_ns as f64)),
        ];
        rows.extend(split.map(|(metric, samples)| row(metric, unit, samples, None)));
        rows
    }

    /// The figure of the 2011 multiqueue BPF paper on its 10 Gbit/s card. It copies by read(2), or
    /// not at all: a ring that the kernel copies into is neither.
    fn source(&self) -> Option<Source> {
        let is_zero_copy =
            self.nature.as_ref().is_some_and(|(mode, ..)| *mode == PortMode::ZeroCopy);
        let condition = match (self.port, self.target, self.size) {
            ("tap", Destination::None, 1500) => 1,
            ("tap", Destination::Memory, 1500) => 2,
            ("tap", Destination::Disk, 1500) => 3,
            ("xdp", Destination::None, 1500) if is_zero_copy => 4,
            ("xdp", Destination::Memory, 1500) if is_zero_copy => 5,
            ("xdp", Destination::Disk, 1500) if is_zero_copy => 6,
            _ => return None,
        };
        let [multi, single, ..] = published::capture(condition)?;
        Some(if self.single { single } else { multi }.source())
    }
}

impl CaptureRun {
    fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_of_the_simulated_interface() {
        let folder = std::env::temp_dir();
        let plan = CapturePlan {
            samples: 1,
            window: Duration::from_millis(30),
            limit: None,
            disk: Some(folder.clone()),
            ..CapturePlan::quick()
        };
        let mut report = Report::new("test".into());
        capture(&plan, &mut report, &AtomicBool::new(false), &mut |_, _| {}).unwrap();
        let of = |port: &'static str, metric: &str| {
            let port = ("port", Param::Text(port));
            let rows = report.rows.iter();
            rows.filter(|row| row.params.0.contains(&port) && row.metric == metric).count()
        };
        // Three targets, two sizes, one thread and several.
        assert_eq!((of("sim", "bits_per_s"), of("sim", "cost_until_reclaimed")), (12, 12));
        // As root the others too, otherwise they are skipped.
        let skipped = report.skipped.iter().any(|skipped| skipped.case == "packet");
        let expected = if skipped { 0 } else { 12 };
        for port in &PORTS[1..] {
            assert_eq!(of(port, "packets_per_s"), expected, "{port}: {:?}", report.skipped);
        }
        for row in &report.rows {
            let sample = row.samples[0];
            let is_idle = sample == 0.0 && !row.metric.ends_with("_per_s");
            // A clock of the kernel ticks more slowly than some of the runs.
            assert!(sample > 0.0 || is_idle && row.metric != "packets_received", "{row:?}");
            if row.metric != "packets_per_s" {
                continue;
            }
            let is_rate = |other: &&Row| {
                (other.case, &other.params) == (row.case, &row.params)
                    && other.metric == "bits_per_s"
            };
            let bits = report.rows.iter().find(is_rate).unwrap().samples[0];
            let Param::Number(size) = row.params.0[3].1 else { panic!("{row:?}") };
            // Of an interface something else may come, too, now and then.
            let share = bits / (sample * 8.0 * size as f64);
            assert!((0.9..1.1).contains(&share), "{share}: {row:?}");
        }
        let modes = |port: &str| {
            let rows = report.rows.iter().filter(|row| row.params.has(("port", port)));
            let mut modes: Vec<_> = rows.map(|row| row.params.0[1].1.to_string()).collect();
            modes.dedup();
            modes
        };
        assert_eq!(modes("sim"), ["sim"]);
        if !skipped {
            // No driver of a veth pair gives frames away.
            let expected = [["tap"], ["tpacket-v3"], ["native"]];
            assert_eq!(["tap", "packet", "xdp"].map(modes), expected);
        }
        let sources = report.rows.iter().filter_map(|row| row.source.map(|_| &row.params));
        assert!(sources.clone().all(|params| params.has(("port", "tap"))));
        assert_eq!(sources.count(), if skipped { 0 } else { 6 });
        let left = [folder.as_path(), Path::new(leftovers::MEMORY)].map(leftovers::path_in);
        assert!(left.iter().all(|path| !path.exists()));
    }
}
