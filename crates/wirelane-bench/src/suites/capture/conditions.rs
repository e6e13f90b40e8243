//! The 2011 multiqueue BPF paper's six conditions, with one thread and with one per queue.
//!
//! Packets are only read, written to memory (`/dev/shm`), or written to a disk. The source copies
//! each packet by read(2), as a TAP device does (`tap:`), or shares memory with the kernel, which
//! still copies into it (`packet:`, a ring of AF_PACKET) or not (`xdp:`, where the driver can; rows
//! say in which mode it was). The simulated interface costs next to nothing and shows the
//! limit of the capture itself. `single` is a capture whose queues are all on one thread (the 2011
//! multiqueue BPF paper: test_sqbpf), `multi` one with a thread per queue (test_mqbpf).
//!
//! Cycles per packet are split as the source's programs print them: spent processing (user space),
//! in system calls, both together (not sleeping), and from receiving a batch until its memory was
//! given back. The time stamp counter counts the cycles. The sender runs on the same CPUs; its time
//! is not counted, but the capture waits for the CPU.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane::mask::{QueueMask, QueueSet};
use wirelane::port::{Backend, OpenOptions, PortMode, Spec, Take};
use wirelane::session::Session;
use wirelane::session::capture::{Capture, CaptureConfig, CaptureOutcome, OutputConfig};
use wirelane_lab::leftovers::Folder;
use wirelane_lab::{Lab, Site};
use wirelane_os::affinity;
use wirelane_os::clock::{self, CpuTime};

use super::timed;
use crate::job::{Case, Job, Sample, SampleFigure};
use crate::published;
use crate::row::{Params, PublishedFigure, params};
use crate::suites::bed;
use crate::suites::senders::{self, RunningSenders, Senders};
use crate::wire::OUTSIDE;

/// Kinds of ports; all but the first are in a lab.
const PORTS: [&str; 4] = ["sim", "tap", "packet", "xdp"];
/// The TAP device, in the namespace of the senders.
const TAP: &str = "wl-read";
/// Queues of every port: as many as there are senders.
const QUEUES: u16 = 2;
/// A run ends before it has written more than this.
const MOST_BYTES: u64 = 1 << 30;
const FLOWS: u64 = 64;
/// The share of the time for the simulated interface.
const SHARE: f64 = 0.25;
/// A run is extended until a packet has arrived, but no longer than this: zero packets give no
/// cost.
const STALL: Duration = Duration::from_secs(3);

/// The ports of a run, and the folder for files on a disk.
#[derive(Debug, Default)]
pub(super) struct CapturePorts {
    /// A folder on the disk to write to; without one, writing to disk is skipped.
    pub(super) disk: Option<PathBuf>,
    /// Ports to capture from. If there are none: `sim:`, and as root also interfaces in a lab.
    pub(super) named: Vec<Spec>,
    /// The sender for these ports; `None` if the packets are sent by other hosts.
    pub(super) load: Option<Site>,
    /// These may take all packets away from the host; ports in the lab always do.
    pub(super) take_all: bool,
}

/// Measures every condition.
///
/// # Errors
/// A named port cannot be opened or fails. Otherwise a case that cannot be measured is skipped with
/// its reason.
pub(super) fn conditions(ports: &CapturePorts, job: &mut Job<'_>) -> Result<()> {
    let bed = &CaptureBed::new(ports, job);
    let begin = Instant::now();
    let (sim, others): (Vec<_>, Vec<_>) =
        bed.conditions().into_iter().partition(|condition| condition.port == "sim");
    // The simulated interface has separate rounds: targets refer to it, and a single sample proves
    // nothing.
    let limit = job.plan.limit.map(|limit| limit.mul_f64(SHARE));
    job.within(limit).take(sim.into_iter().map(|one| one.case(bed)).collect())?;
    let limit = job.left(begin);
    job.within(limit).take(others.into_iter().map(|one| one.case(bed)).collect())
}

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaptureDestination {
    None,
    Memory,
    Disk,
}

impl CaptureDestination {
    const ALL: [Self; 3] = [Self::None, Self::Memory, Self::Disk];

    /// In rows, and in words.
    const fn names(self) -> [&'static str; 2] {
        match self {
            Self::None => ["none", "reading"],
            Self::Memory => ["memory", "writing to memory"],
            Self::Disk => ["disk", "writing to disk"],
        }
    }
}

/// Where the ports and the files are.
struct CaptureBed<'a> {
    ports: &'a CapturePorts,
    lab: Option<Lab>,
    memory: Option<Folder>,
    disk: Option<Folder>,
}

impl<'a> CaptureBed<'a> {
    fn new(ports: &'a CapturePorts, job: &mut Job<'_>) -> Self {
        let lab = ports.named.is_empty().then(|| bed::cable(QUEUES, 0)).and_then(|lab| {
            lab.map_err(|error| PORTS[1..].iter().for_each(|port| job.skip(port, &error))).ok()
        });
        let memory = job.or_skip("memory", bed::in_memory());
        let disk = ports.disk.as_deref().map(Folder::new);
        let disk = disk.and_then(|disk| job.or_skip("disk", disk));
        if disk.is_none() {
            job.skip("disk", "no folder on a disk was named");
        }
        Self { ports, lab, memory, disk }
    }

    fn conditions(&self) -> Vec<CaptureCondition<'_>> {
        let CapturePorts { named, load, .. } = self.ports;
        let mut ports: Vec<(&'static str, Option<&Spec>, &[u64])> = Vec::new();
        for spec in named {
            let label = spec.backend.map_or("port", Backend::as_str);
            ports.push((label, Some(spec), if load.is_some() { &[64, 1500] } else { &[0] }));
        }
        if named.is_empty() {
            let own = if self.lab.is_some() { &PORTS[..] } else { &PORTS[..1] };
            ports.extend(own.iter().map(|port| (*port, None, &[64, 1500][..])));
        }
        let mut conditions = Vec::new();
        for (port, named, sizes) in ports {
            for target in CaptureDestination::ALL {
                if target != CaptureDestination::None && self.folder(target).is_none() {
                    continue;
                }
                for size in sizes.iter().copied() {
                    for single in [true, false] {
                        let load = load.as_ref().filter(|_| named.is_some());
                        conditions.push(CaptureCondition {
                            port,
                            named,
                            load,
                            target,
                            single,
                            size,
                        });
                    }
                }
            }
        }
        conditions
    }

    fn folder(&self, target: CaptureDestination) -> Option<&Folder> {
        match target {
            CaptureDestination::None => None,
            CaptureDestination::Memory => self.memory.as_ref(),
            CaptureDestination::Disk => self.disk.as_ref(),
        }
    }

    fn run(
        &self,
        one: &CaptureCondition<'_>,
        window: Duration,
        stop: &AtomicBool,
    ) -> Result<CaptureRun> {
        let lab = self.lab.as_ref().filter(|_| one.port != "sim");
        let spec: Spec = match (one.named, lab) {
            (Some(named), _) => named.clone(),
            (None, Some(_)) if one.port == "tap" => format!("tap:{TAP}?queues={QUEUES}").parse()?,
            (None, Some(lab)) => format!("{}:{}", one.port, lab.far.interface()).parse()?,
            (None, None) => format!("sim:{QUEUES}?size={}&flows=256", one.size).parse()?,
        };
        let is_ours = one.named.is_none();
        let options = OpenOptions::default()
            .mask(QueueMask { rx: QueueSet::All, ..QueueMask::NONE })
            .take(match (is_ours, self.ports.take_all) {
                // The interfaces of the lab lead nowhere else.
                (true, _) => Take::AllAndManagement,
                (false, true) => Take::All,
                (false, false) => Take::Nothing,
            })
            // The packets of the sender have no receiver's address.
            .promiscuous(one.load.is_some());
        let mut port = bed::open(lab.map(|lab| &lab.far), &spec, &options)?;
        let info = port.info();
        let nature = (info.mode, info.queues.len() as u64, info.interface.clone());
        let folder = self.folder(one.target);
        folder.map_or(Ok(()), Folder::make)?;
        let output = folder.map(|folder| {
            let path = folder.file("capture.pcapng");
            OutputConfig::new(path).split(!one.single)
        });
        let config = CaptureConfig::default().output(output).single(one.single);
        let held = Arc::new(AtomicU64::new(0));
        timed::time(&mut port, &held);
        // Packets sent out of a TAP device are read by its program. Packets sent into one end of a
        // cable arrive at the other end.
        let from = lab.map(|lab| match one.port {
            "tap" => (&lab.far, TAP),
            _ => (&lab.near, lab.near.interface()),
        });
        let from = from.or_else(|| one.load.map(|site| (site, site.interface())));
        // The senders are made first, because that may cause packets.
        let ready = from.map(|(site, interface)| senders(site, interface, one)).transpose()?;
        let capture = one.on_its_cpus(|| Capture::start(vec![port], &config));
        // All files are open, or never will be.
        folder.inspect(|folder| folder.remove());
        let capture = capture?;
        let (before, begin) = (clock::process_cpu(), Instant::now());
        let sending = ready.map(Senders::start).transpose()?;
        one.wait(&capture, begin + window, stop);
        let sent = sending.map(RunningSenders::stop).transpose()?;
        let sent = sent.map_or_else(CpuTime::default, |sent| sent.cpu);
        let outcome = capture.join();
        let (elapsed, cpu) = (begin.elapsed(), clock::process_cpu().since(before));
        CaptureRun::of(outcome, elapsed, cpu.since(sent), held.load(Ordering::Relaxed), nature)
    }
}

/// A sender for every queue behind `interface`.
fn senders<'a>(site: &'a Site, interface: &str, one: &CaptureCondition<'_>) -> Result<Senders<'a>> {
    let (frames, seats) = (senders::frames(FLOWS, one.size)?, senders::seats(QUEUES));
    Senders::each(site, interface, &frames, &seats, one.port == "packet")
}

/// The mode of a port in force, its queues and its interface.
type Nature = (PortMode, u64, Option<String>);

/// The counts of one run.
#[derive(Debug)]
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

impl CaptureRun {
    fn of(
        outcome: CaptureOutcome,
        elapsed: Duration,
        cpu: CpuTime,
        held_ns: u64,
        nature: Nature,
    ) -> Result<Self> {
        if let Some(error) = outcome.errors.into_iter().next() {
            return Err(error);
        }
        let packets = outcome.queues.iter().map(|queue| queue.packets).sum();
        if packets == 0 {
            let cause = format!("not one packet was captured in {:.1} s", elapsed.as_secs_f64());
            return Err(Error::failed("capture", cause).help("check the sender of the packets"));
        }
        let dropped = outcome.queues.iter().map(|queue| queue.dropped.total()).sum();
        let bytes = outcome.queues.iter().map(|queue| queue.bytes.unwrap_or(0)).sum();
        Ok(Self { packets, dropped, bytes, elapsed, cpu, held_ns, nature })
    }
}

/// A port, the threads, and the destination.
struct CaptureCondition<'a> {
    port: &'static str,
    /// A port of the user, and its sender.
    named: Option<&'a Spec>,
    load: Option<&'a Site>,
    target: CaptureDestination,
    single: bool,
    /// Bytes of a packet; 0 if other hosts send packets of any size.
    size: u64,
}

impl<'a> CaptureCondition<'a> {
    fn case(self, bed: &'a CaptureBed<'a>) -> Case<'a> {
        let threads = if self.single { "one thread" } else { "a thread per queue" };
        let [_, target] = self.target.names();
        let title = match self.named {
            Some(named) if self.size == 0 => format!("{named} {target}, {threads}"),
            Some(named) => format!("{named} {target}, {threads}, {} bytes", self.size),
            None => format!("{} {target}, {threads}, {} bytes", self.port, self.size),
        };
        let (name, port) = (if self.single { "single" } else { "multi" }, self.port);
        let is_required = self.named.is_some();
        let measure = move |job: &mut Job<'_>| {
            let run = bed.run(&self, job.plan.window, job.stop)?;
            Ok(self.sample(&run, job.report.machine.cycles_per_ns))
        };
        Case::new(name, Params::default(), title, measure)
            .skipped_as(port)
            .required(is_required)
            .once()
    }

    /// Starts threads on their CPUs: one CPU for each receiving thread and its writing thread.
    /// Otherwise a single receiving thread would use a second CPU to write, and two threads would
    /// not be twice as fast. With an interface, the senders keep all CPUs busy, and the scheduler
    /// decides.
    fn on_its_cpus<T>(&self, start: impl FnOnce() -> T) -> T {
        let cpus = bed::cpus();
        let count = if self.single { 1 } else { usize::from(QUEUES) };
        let own = cpus.get(..count).filter(|_| self.port == "sim");
        // Threads that cannot be pinned run anywhere.
        let pinned = own.is_some_and(|own| affinity::pin_to(own).is_ok());
        let started = start();
        if pinned {
            let _ = affinity::pin_to(&cpus);
        }
        started
    }

    /// Waits until `end`, or until the file has enough bytes. On a busy machine a run may get no
    /// CPU time: it is then extended.
    fn wait(&self, capture: &Session<Capture>, end: Instant, stop: &AtomicBool) {
        const SLICE: Duration = Duration::from_millis(5);
        let most = MOST_BYTES / (self.size.max(64) + 32);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let full = self.target != CaptureDestination::None && capture.written() >= most;
            let stopped = stop.load(Ordering::Relaxed);
            let has_come = || capture.queues().iter().any(|queue| queue.packets > 0);
            let is_over = left.is_zero() && (has_come() || Instant::now() >= end + STALL);
            let slice = if left.is_zero() { SLICE } else { left.min(SLICE) };
            if is_over || full || stopped || capture.wait(slice) {
                return;
            }
        }
    }

    fn sample(&self, run: &CaptureRun, cycles_per_ns: Option<f64>) -> Sample {
        let seconds = run.elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let bits = SampleFigure::new("bits_per_s", run.bytes as f64 * 8.0 / seconds);
        let mut figures = vec![
            bits.with_source(self.source(run.nature.0)),
            SampleFigure::new("packets_per_s", run.packets as f64 / seconds),
            SampleFigure::new("packets_received", run.packets as f64),
        ];
        figures.extend(run.dropped.map(|n| SampleFigure::new("packets_dropped", n as f64)));
        let (scale, unit) = cycles_per_ns.map_or((1.0, "ns"), |cycles| (cycles, "cycles"));
        let ns = |time: Duration| time.as_nanos() as f64;
        let costs = [
            ("cost_processing", ns(run.cpu.user)),
            ("cost_in_system_calls", ns(run.cpu.system)),
            ("cost_not_sleeping", ns(run.cpu.total())),
            ("cost_until_reclaimed", run.held_ns as f64),
        ];
        figures.extend(costs.map(|(metric, ns)| {
            SampleFigure::new(metric, ns * scale / run.packets.max(1) as f64).in_unit(unit)
        }));
        Sample { figures, params: Some(self.params(&run.nature)) }
    }

    fn params(&self, (mode, queues, interface): &Nature) -> Params {
        let [target, _] = self.target.names();
        let mut params = params![port = self.port, mode = mode.as_str(), target = target];
        if self.size > 0 {
            // The length of packets from outside is unknown.
            params = params.and(params![size = self.size].0);
        }
        params = params.and(params![queues = *queues].0);
        match interface.clone().filter(|_| self.named.is_some()) {
            Some(interface) => {
                let load = self.load.map_or(OUTSIDE, |load| load.interface()).to_owned();
                params.and(params![interface = interface, load = load].0)
            }
            None => params,
        }
    }

    /// The figure of the 2011 multiqueue BPF paper on its 10 Gbit/s card. The paper copies by
    /// read(2) or has no copy: a ring that the kernel copies into has no figure.
    fn source(&self, mode: PortMode) -> Option<PublishedFigure> {
        let first = match (self.port, self.size) {
            ("tap", 1500) => 1,
            ("xdp", 1500) if mode == PortMode::ZeroCopy => 4,
            _ => return None,
        };
        let place = CaptureDestination::ALL.iter().position(|target| *target == self.target)?;
        let [multi, single, ..] = published::capture(first + place)?;
        Some(if self.single { single } else { multi }.source())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::job::{SamplingPlan, measured};
    use crate::row::{FigureRow, Param};
    use wirelane_lab::leftovers;

    #[test]
    fn every_condition_of_the_simulated_interface() {
        let folder = std::env::temp_dir();
        let ports = CapturePorts { disk: Some(folder.clone()), ..CapturePorts::default() };
        let plan = SamplingPlan { samples: 1, window: Duration::from_millis(30), limit: None };
        let report = measured("capture", plan, |mut job| conditions(&ports, &mut job)).unwrap();
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
            let is_rate = |other: &&FigureRow| {
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
