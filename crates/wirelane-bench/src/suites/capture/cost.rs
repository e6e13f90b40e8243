//! CPU time of a captured packet: our command, tcpdump, dumpcap and netsniff-ng as processes.
//!
//! ```text
//!   first CPU: paced frames from the kernel ─▶ wl-a ═══ wl-b ─▶ ring of the capture     second CPU: capture
//! ```
//!
//! The sender pays for what the kernel does until a packet lies in the ring, for every program alike; what is
//! compared is the CPU time of the capturing process. There are two figures: of the whole process, and of the time
//! under load, because starting and ending cost the same for any number of packets. That time begins with the first
//! packet and ends when the program must have received the last one.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_os::{affinity, clock};

use crate::leftovers::{self, Folder};
use crate::peers::capture::{PROGRAMS, Program};
use crate::peers::missing;
use crate::peers::process::{Running, line};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane::error::{Error, Result};
use wirelane::port::sim::Stream;
use wirelane_lab::{Lab, LabConfig};
use wirelane_send::kernel::{LiveSender, Pace};

const SUITE: &str = "capture";
const CASE: &str = "cpu";
/// Packets per second: what all of them take without loss on one CPU of a machine of today.
const RATE: u64 = 300_000;
const SIZE: u64 = 64;
const FLOWS: u64 = 64;
/// Receive queues of the interface.
const QUEUES: u16 = 2;
/// No sample is shorter: otherwise what a program does without packets (waking up to look, the first pass through its
/// ring), and what else the machine does, would be a large part of the figure.
const SHORTEST: Duration = Duration::from_secs(1);
/// How long a program may take to get ready, and to end.
const LIMIT: Duration = Duration::from_secs(20);
/// From the moment that a program says it is ready until it is.
const SETTLE: Duration = Duration::from_millis(300);

/// One run of one program.
struct CostSample {
    /// CPU time of the whole process.
    total: Duration,
    /// The part of it from the first packet to the last one.
    loaded: Duration,
    captured: u64,
    sent: u64,
    /// CPU time of the sender.
    sender: Duration,
}

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None: what cannot be measured is skipped with its reason.
pub fn cost(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let bed = match CostBed::new(plan) {
        Ok(bed) => bed,
        Err(error) => {
            report.skip(SUITE, CASE, error.to_string());
            return Ok(());
        }
    };
    let mut cases: Vec<CostCase<'_>> = Vec::new();
    for program in PROGRAMS {
        if program.command(plan.own, "", None).is_none() {
            report.skip(SUITE, program.name, missing(program.name));
            continue;
        }
        let case = |is_written| CostCase { bed: &bed, program, is_written, samples: Vec::new() };
        cases.extend([case(false), case(true)]);
    }
    cases.sort_by_key(|case| case.is_written);
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    for case in cases.iter().filter(|case| !case.samples.is_empty()) {
        report.rows.extend(case.rows());
    }
    Ok(())
}

/// A program, and what it does with packets.
struct CostCase<'a> {
    bed: &'a CostBed<'a>,
    program: Program,
    /// Whether packets are written to a file in memory.
    is_written: bool,
    samples: Vec<CostSample>,
}

impl Turn for CostCase<'_> {
    fn case(&self) -> &'static str {
        self.program.name
    }

    fn title(&self) -> String {
        format!("CPU time of {}, written to: {}", self.program.name, self.target())
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        self.samples.extend(self.bed.sample(self, stop, report)?);
        Ok(())
    }
}

impl CostCase<'_> {
    fn target(&self) -> &'static str {
        if self.is_written { "memory" } else { "none" }
    }

    fn rows(&self) -> [Row; 5] {
        rows(&self.program, self.target(), &self.samples)
    }
}

fn rows(program: &Program, target: &'static str, samples: &[CostSample]) -> [Row; 5] {
    let row = |metric, unit, of: &dyn Fn(&CostSample) -> f64| Row {
        suite: SUITE,
        case: CASE,
        peer: (!program.is_ours()).then_some(program.name),
        params: Params(vec![
            ("port", Param::Text("packet")),
            ("target", Param::Text(target)),
            ("size", Param::Number(SIZE)),
            ("offered", Param::Number(RATE)),
        ]),
        metric,
        unit,
        samples: samples.iter().map(of).collect(),
        source: None,
    };
    let per = |time: Duration, sample: &CostSample| {
        time.as_nanos() as f64 / sample.captured.max(1) as f64
    };
    let lost = |sample: &CostSample| {
        let lost = sample.sent.saturating_sub(sample.captured);
        lost as f64 / sample.sent.max(1) as f64
    };
    [
        row("cpu_ns_per_packet_under_load", "ns", &|sample| per(sample.loaded, sample)),
        row("cpu_ns_per_packet", "ns", &|sample| per(sample.total, sample)),
        row("packets_received", "1", &|sample| sample.captured as f64),
        row("sender_cpu_ns_per_packet", "ns", &|sample| {
            sample.sender.as_nanos() as f64 / sample.sent.max(1) as f64
        }),
        row("lost_share", "1", &lost),
    ]
}

/// A cable, and a CPU for either end.
struct CostBed<'a> {
    own: &'a Path,
    window: Duration,
    lab: Lab,
    frames: Vec<Vec<u8>>,
    sender: u32,
    capturer: u32,
    memory: Folder,
}

impl<'a> CostBed<'a> {
    fn new(plan: &ProcessPlan<'a>) -> Result<Self> {
        let lab = Lab::new(LabConfig { queues: QUEUES, ..LabConfig::default() })?;
        // What the sender redirects arrives at packet sockets, too.
        lab.far.set_gro(true)?;
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        let Some([sender, capturer]) = cpus.first_chunk().copied() else {
            return Err(Error::failed("CPU time of captures", "it takes two CPUs to measure"));
        };
        let stream = Stream::new(&format!("sim:1?flows={FLOWS}&size={SIZE}").parse()?)?;
        let frames = (0..FLOWS).map(|k| stream.packet(k).bytes).collect();
        let memory = Folder::new(Path::new(leftovers::MEMORY))?;
        let (own, window) = (plan.own, plan.window.max(SHORTEST));
        Ok(Self { own, window, lab, frames, sender, capturer, memory })
    }

    /// `None` if it was stopped.
    fn sample(
        &self,
        case: &CostCase<'_>,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Option<CostSample>> {
        let program = &case.program;
        let unclear = |cause: &'static str| Error::failed(program.name, cause);
        let interface = self.lab.far.interface();
        let file = case.is_written.then(|| self.memory.file("capture"));
        if case.is_written {
            self.memory.remove();
            self.memory.make()?;
        }
        let command = program.command(self.own, interface, file.as_deref());
        let mut command = command.ok_or_else(|| unclear("is missing"))?;
        report.environment.add_command(line(&command));
        // Nothing else is started until it has ended: the difference is its own.
        let before = clock::children_cpu();
        let mut running = Running::start(&mut command, &[self.capturer], Some(&self.lab.far))?;
        running.wait_for(program.ready, LIMIT, stop)?;
        thread::sleep(SETTLE);
        let start = running.cpu();
        let count = (RATE as f64 * self.window.as_secs_f64()) as u64;
        let pace = Pace { count: Some(count), rate: Some(RATE), cpu: Some(self.sender) };
        let send = || {
            LiveSender::new(self.lab.near.interface(), &self.frames)
                .and_then(|sender| sender.start(pace))
        };
        let sending = self.lab.near.inside(send)??;
        let deadline = Instant::now() + 4 * self.window + LIMIT;
        while !sending.is_finished() && !stop.load(Ordering::Relaxed) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let sent = sending.stop()?;
        if stop.load(Ordering::Relaxed) {
            self.memory.remove();
            return Ok(None);
        }
        thread::sleep(program.drain);
        let loaded = running.cpu().saturating_sub(start);
        let output = running.interrupt(LIMIT)?;
        let total = clock::children_cpu().since(before).total();
        self.memory.remove();
        let counts = program.counts(&output.stdout, &output.stderr);
        let counts = counts.ok_or_else(|| unclear("does not tell how many packets it captured"))?;
        let (captured, sent, sender) = (counts.captured, sent.frames, sent.cpu.total());
        Ok(Some(CostSample { total, loaded, captured, sent, sender }))
    }
}
