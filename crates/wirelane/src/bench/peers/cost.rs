//! What capturing a packet costs: our command beside tcpdump, dumpcap and netsniff-ng, as processes.
//!
//! ```text
//!   first CPU: paced frames from the kernel ─▶ wl-a ═══ wl-b ─▶ ring of the capture     second CPU: capture
//! ```
//!
//! The sender pays for what the kernel does until a packet lies in the ring, for every program alike; what is
//! compared is the CPU time of the capturing process. It is told twice: of the whole process, and of the time under
//! load alone, as starting and ending cost the same for any number of packets.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_os::{affinity, clock};

use super::super::leftovers::{self, Folder};
use super::super::live::{LiveSender, Pace};
use super::super::report::{Param, Params, Report, Row};
use super::super::rounds::Rounds;
use super::capture::{PROGRAMS, Program};
use super::process::{Running, line};
use super::{Plan, missing};
use crate::error::{Error, Result};
use crate::lab::{Lab, LabConfig};
use crate::port::sim::Stream;

const SUITE: &str = "capture";
const CASE: &str = "cpu";
/// Packets per second: what all of them take without loss on one CPU of a machine of today.
const RATE: u64 = 300_000;
const SIZE: u64 = 64;
const FLOWS: u64 = 64;
/// How long a program may take to get ready, and to end.
const LIMIT: Duration = Duration::from_secs(20);
/// From the moment that a program says it is ready until it is.
const SETTLE: Duration = Duration::from_millis(300);

/// What one run of one program took.
struct Sample {
    /// CPU time of the whole process.
    total: Duration,
    /// The part of it from the first packet to the last one.
    loaded: Duration,
    captured: u64,
    sent: u64,
}

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None that the report could not hold: what cannot be measured is skipped with its reason.
pub fn cost(
    plan: &Plan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let bed = match Bed::new() {
        Ok(bed) => bed,
        Err(error) => {
            report.skip(SUITE, CASE, error.to_string());
            return Ok(());
        }
    };
    let mut cases: Vec<Case> = Vec::new();
    for program in PROGRAMS {
        if program.command(plan.own, "", None).is_none() {
            report.skip(SUITE, program.name, missing(program.name));
            continue;
        }
        let case = |is_written| Case { program, is_written, samples: Vec::new() };
        cases.extend([case(false), case(true)]);
    }
    cases.sort_by_key(|case| case.is_written);
    'rounds: for round in Rounds::new(plan.samples, plan.limit) {
        let count = cases.len();
        for turn in 0..count {
            // Another one begins each round, so that none is always the first.
            let turn = (round as usize + turn) % count.max(1);
            let Some(case) = cases.get_mut(turn) else { continue };
            if stop.load(Ordering::Relaxed) {
                break 'rounds;
            }
            let (name, target) = (case.program.name, case.target());
            progress(round, &format!("CPU time of {name}, written to: {target}"));
            match bed.sample(case, plan, stop, report) {
                Ok(sample) => case.samples.push(sample),
                Err(error) => report.skip(SUITE, name, error.to_string()),
            }
        }
    }
    for case in cases.iter().filter(|case| !case.samples.is_empty()) {
        report.rows.extend(case.rows());
    }
    Ok(())
}

/// A program, and what it does with packets.
struct Case {
    program: Program,
    /// To a file in memory; otherwise they are only read.
    is_written: bool,
    samples: Vec<Sample>,
}

impl Case {
    fn target(&self) -> &'static str {
        if self.is_written { "memory" } else { "none" }
    }

    fn rows(&self) -> [Row; 4] {
        rows(&self.program, self.target(), &self.samples)
    }
}

fn rows(program: &Program, target: &'static str, samples: &[Sample]) -> [Row; 4] {
    let row = |metric, unit, of: &dyn Fn(&Sample) -> f64| Row {
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
    let per =
        |time: Duration, sample: &Sample| time.as_nanos() as f64 / sample.captured.max(1) as f64;
    let lost = |sample: &Sample| {
        let lost = sample.sent.saturating_sub(sample.captured);
        lost as f64 / sample.sent.max(1) as f64
    };
    [
        row("cpu_ns_per_packet_under_load", "ns", &|sample| per(sample.loaded, sample)),
        row("cpu_ns_per_packet", "ns", &|sample| per(sample.total, sample)),
        row("packets_received", "1", &|sample| sample.captured as f64),
        row("lost_share", "1", &lost),
    ]
}

/// A cable, and a CPU for either end.
struct Bed {
    lab: Lab,
    frames: Vec<Vec<u8>>,
    sender: u32,
    capturer: u32,
    memory: Folder,
}

impl Bed {
    fn new() -> Result<Self> {
        let lab = Lab::new(LabConfig::default())?;
        // What the sender redirects arrives at packet sockets, too.
        lab.far.set_gro(true)?;
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        let Some([sender, capturer]) = cpus.first_chunk().copied() else {
            return Err(Error::failed("CPU time of captures", "it takes two CPUs to measure"));
        };
        let stream = Stream::new(&format!("sim:1?flows={FLOWS}&size={SIZE}").parse()?)?;
        let frames = (0..FLOWS).map(|k| stream.packet(k).bytes).collect();
        let memory = Folder::new(Path::new(leftovers::MEMORY))?;
        Ok(Self { lab, frames, sender, capturer, memory })
    }

    fn sample(
        &self,
        case: &Case,
        plan: &Plan<'_>,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Sample> {
        let program = &case.program;
        let unclear = |cause: &'static str| Error::failed(program.name, cause);
        let interface = self.lab.far.interface();
        let file = case.is_written.then(|| self.memory.file("capture"));
        if case.is_written {
            self.memory.remove();
            self.memory.make()?;
        }
        let command = program.command(plan.own, interface, file.as_deref());
        let mut command = command.ok_or_else(|| unclear("is missing"))?;
        report.environment.add_command(line(&command));
        // Nothing else is started until it has ended: the difference is its own.
        let before = clock::children_cpu();
        let mut running = Running::start(&mut command, &[self.capturer], Some(&self.lab.far))?;
        running.wait_for(program.ready, LIMIT, stop)?;
        thread::sleep(SETTLE);
        let start = running.cpu();
        let count = (RATE as f64 * plan.window.as_secs_f64()) as u64;
        let pace = Pace { count: Some(count), rate: Some(RATE), cpu: Some(self.sender) };
        let send = || {
            LiveSender::new(self.lab.near.interface(), &self.frames)
                .and_then(|sender| sender.start(pace))
        };
        let sending = self.lab.near.inside(send)??;
        let deadline = Instant::now() + 4 * plan.window + LIMIT;
        while !sending.is_finished() && !stop.load(Ordering::Relaxed) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let sent = sending.stop()?;
        thread::sleep(program.drain);
        let loaded = running.cpu().saturating_sub(start);
        let output = running.interrupt(LIMIT)?;
        let total = clock::children_cpu().since(before).total();
        self.memory.remove();
        let counts = program.counts(&output.stdout, &output.stderr);
        let counts = counts.ok_or_else(|| unclear("does not tell how many packets it captured"))?;
        Ok(Sample { total, loaded, captured: counts.captured, sent: sent.frames })
    }
}
