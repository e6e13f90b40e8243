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

use super::super::live::{LiveSender, Pace};
use super::super::report::{Param, Params, Report, Row};
use super::super::rounds::Rounds;
use super::capture::{PROGRAMS, Program};
use super::process::{Running, line};
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
/// Longer than any ring keeps a packet: tcpdump's hands over after a second.
const DRAIN: Duration = Duration::from_millis(1300);

/// How thoroughly to measure.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Our own command.
    pub own: &'a Path,
    /// Rounds: samples of every figure.
    pub samples: usize,
    /// How long packets are sent.
    pub window: Duration,
    /// No round begins that would end later than this.
    pub limit: Option<Duration>,
}

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
    let mut programs: Vec<(Program, Vec<Sample>)> = Vec::new();
    for program in PROGRAMS {
        match (program.command(plan.own, "", None), program.package) {
            (None, Some(package)) => {
                let reason = format!("is not installed (Debian package {package})");
                report.skip(SUITE, program.name, reason);
            }
            _ => programs.push((program, Vec::new())),
        }
    }
    'rounds: for round in Rounds::new(plan.samples, plan.limit) {
        let count = programs.len();
        for turn in 0..count {
            // Another one begins each round, so that none is always the first.
            let turn = (round as usize + turn) % count.max(1);
            let Some((program, samples)) = programs.get_mut(turn) else { continue };
            if stop.load(Ordering::Relaxed) {
                break 'rounds;
            }
            progress(round, &format!("CPU time of {}", program.name));
            match bed.sample(program, plan, stop, report) {
                Ok(sample) => samples.push(sample),
                Err(error) => report.skip(SUITE, program.name, error.to_string()),
            }
        }
    }
    for (program, samples) in programs.iter().filter(|(_, samples)| !samples.is_empty()) {
        report.rows.extend(rows(program, samples));
    }
    Ok(())
}

fn rows(program: &Program, samples: &[Sample]) -> [Row; 3] {
    let row = |metric, unit, of: &dyn Fn(&Sample) -> f64| Row {
        suite: SUITE,
        case: CASE,
        peer: (!program.is_ours()).then_some(program.name),
        params: Params(vec![
            ("port", Param::Text("packet")),
            ("target", Param::Text("none")),
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
        row("lost_share", "1", &lost),
    ]
}

/// A cable, and a CPU for either end.
struct Bed {
    lab: Lab,
    frames: Vec<Vec<u8>>,
    sender: u32,
    capturer: u32,
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
        Ok(Self { lab, frames, sender, capturer })
    }

    fn sample(
        &self,
        program: &Program,
        plan: &Plan<'_>,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Sample> {
        let unclear = |cause: &'static str| Error::failed(program.name, cause);
        let interface = self.lab.far.interface();
        let command = program.command(plan.own, interface, None);
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
        thread::sleep(DRAIN);
        let loaded = running.cpu().saturating_sub(start);
        let output = running.interrupt(LIMIT)?;
        let total = clock::children_cpu().since(before).total();
        let counts = program.counts(&output.stdout, &output.stderr);
        let counts = counts.ok_or_else(|| unclear("does not tell how many packets it captured"))?;
        Ok(Sample { total, loaded, captured: counts.captured, sent: sent.frames })
    }
}
