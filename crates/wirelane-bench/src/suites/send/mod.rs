//! The suite `send`: `wirelane send` compared with other programs that send, and the precision of
//! its rates and times.
//!
//! ```text
//!   first CPU: wirelane send │ tcpreplay │ trafgen │ … ─▶ wl-a ═══ wl-b: an XDP program that
//!                                                     drops, and counts or notes times
//! ```
//!
//! All senders are processes on the same CPU. For each of them, the packets that arrive at the far
//! end count. The receiver is an XDP program of a few instructions that runs on the sender's CPU,
//! so the sender is the limit, and its time includes the path through the cable.

mod bed;
mod case;
mod errors;
mod file;
mod named;
mod ours;
pub(crate) mod shape;

use std::path::Path;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use wirelane::error::{Error, Result};
use wirelane_cli::args;

use self::bed::SendBed;
use self::case::{CasePackets, GAP_US, SendMeasurement, SendSubject};
use self::errors::errors;
pub use self::named::NamedInterface;
use self::ours::Ours;
use self::shape::{FLOWS, PERCENTS};
use crate::effort::Effort;
use crate::job::{self, Job, Sample, SampleFigure, SamplingPlan};
use crate::peers::process::patience;
use crate::peers::senders::{SENDERS, SendProgram, SendTask};
use crate::row::{Params, params};
use crate::suite::Suite;

/// Distance of the packets of the long file.
const DRIFT_GAP_US: u64 = 1000;

/// Measure `wirelane send` beside tcpreplay, trafgen, xdp-trafficgen and dpdk-testpmd, and how
/// exactly it keeps rates and times.
///
/// All send on the first CPU, through one queue of a veth pair between two temporary network
/// namespaces, and what arrives at the other end is counted there. It needs root. The drift is that
/// of one long replay, after all rounds. --port sends out of an interface of yours.
#[derive(Args, Clone, Debug)]
pub struct SendSuite {
    /// Send out of this interface of yours instead
    #[arg(long, value_name = "IF")]
    port: Option<String>,
    /// Count at this interface, the other end of the cable of --port [default: what --port's
    /// interface counts as sent]
    #[arg(long, value_name = "IF", requires = "port")]
    count_at: Option<String>,
    /// Measure this case only; may be given several times
    #[arg(long = "case", value_name = "CASE", value_enum)]
    cases: Vec<SendCase>,
    /// Packet size without frame check sequence, 60 to 9216 bytes; may be given several times
    #[arg(long = "size", value_name = "BYTES", default_values_t = SIZES,
          value_parser = clap::value_parser!(u32).range(60..=9216))]
    sizes: Vec<u32>,
    /// Length of a sample [default: 1s; with --quick 150ms]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
    /// Length of the replay whose drift is measured [default: 10min; with --quick 3s]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    drift: Option<Duration>,
}

const SIZES: [u32; 2] = [64, 1500];

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SendCase {
    /// Send generated packets as fast as possible, beside all others
    Generate,
    /// The same by each engine and kind of port
    Engine,
    /// Send a capture file as fast as possible, beside tcpreplay
    Replay,
    /// Keep rates of 1, 10, 50 and 80 % of the highest
    Rate,
    /// Send a capture file in its own time, beside tcpreplay
    Timing,
    /// Generate 100,000 flows, beside one
    Flows,
    /// Send a long capture file in its own time
    Drift,
}

/// The cases of a run.
#[derive(Clone, Debug)]
pub struct SendSelection {
    /// The cases.
    pub cases: Vec<SendCase>,
    /// Bytes of the packets, without frame check sequence.
    pub sizes: Vec<usize>,
    /// The length of the replay whose drift is measured.
    pub drift: Duration,
    /// The number of such replays.
    pub drifts: usize,
}

impl SendSelection {
    fn has(&self, case: SendCase) -> bool {
        self.cases.contains(&case)
    }
}

impl Suite for SendSuite {
    const NAME: &'static str = "send";
    const USUAL: [u64; 2] = [45, 130];

    fn plan(&self, effort: &Effort) -> SamplingPlan {
        let plan = SamplingPlan::of(effort, [1000, 250, 150]);
        SamplingPlan { window: self.seconds.unwrap_or(plan.window), ..plan }
    }

    fn run(&self, job: &mut Job<'_>) -> Result<()> {
        job.own()?;
        // A report has several short replays, because a single sample proves nothing.
        let (drift, drifts) = job.effort.choose([(600, 1), (5, job.plan.samples), (3, 1)]);
        let all = SendCase::value_variants();
        let wanted = SendSelection {
            cases: if self.cases.is_empty() { all.to_vec() } else { self.cases.clone() },
            sizes: self.sizes.iter().map(|size| *size as usize).collect(),
            drift: self.drift.unwrap_or(Duration::from_secs(drift)),
            drifts,
        };
        let named =
            self.port.as_deref().map(|port| NamedInterface::open(port, self.count_at.as_deref()));
        send(&wanted, named.transpose()?, job)
    }
}

/// Measures all wanted cases.
///
/// # Errors
/// The `named` interfaces cannot be used, or the files cannot be written. Without named interfaces,
/// failures are noted with their reason.
pub fn send(
    wanted: &SendSelection,
    named: Option<NamedInterface>,
    job: &mut Job<'_>,
) -> Result<()> {
    let begin = Instant::now();
    let is_named = named.is_some();
    let own = job.own()?.to_owned();
    let bed = match SendBed::new(own, named, &wanted.sizes, patience(job.plan.limit)) {
        Err(error) if is_named => return Err(error),
        bed => job.or_skip("all", bed),
    };
    let Some(bed) = &bed else { return Ok(()) };
    if !bed.notes_times() {
        for (case, name) in [(SendCase::Timing, "timing"), (SendCase::Drift, "drift")] {
            if wanted.has(case) {
                let reason =
                    "when packets arrive is noted at the other end of the cable: --count-at IF";
                job.skip(name, reason);
            }
        }
    }
    let drifts = if wanted.has(SendCase::Drift) && bed.notes_times() { wanted.drifts } else { 0 };
    let cases =
        cases(wanted, bed, job).into_iter().map(SendMeasurement::measured).collect::<Vec<_>>();
    let after = wanted.drift * drifts as u32;
    let limit = job.left(begin).map(|left| left.saturating_sub(after));
    if !cases.is_empty() {
        job.within(limit).take(cases)?;
    }
    // As many replays as the time allows, at least one.
    let measure = |job: &mut Job<'_>| drift(wanted.drift, bed, job);
    let params = bed.params().and(params![seconds = wanted.drift.as_secs()].0);
    let case = job::Case::new("drift", params, "a long file in its own time", measure);
    let plan = SamplingPlan { samples: drifts, limit: job.left(begin), ..job.plan };
    if drifts > 0 { job.with(plan).take(vec![case]) } else { Ok(()) }
}

/// The cases that are measured in rounds. Missing programs are skipped with the reason.
fn cases<'a>(
    wanted: &SendSelection,
    bed: &'a SendBed,
    job: &mut Job<'_>,
) -> Vec<SendMeasurement<'a>> {
    let window = job.plan.window;
    let mut cases = Vec::new();
    let mut add = |name, subject, what, params: Params| {
        let params = bed.params().and(params.0);
        cases.push(SendMeasurement { bed, name, subject, what, params, window });
    };
    let ours = SendSubject::Ours(Ours::Default);
    // The case `rate` needs the highest rate.
    let needs_fastest = wanted.has(SendCase::Rate) && !wanted.has(SendCase::Generate);
    for size in wanted.sizes.iter().copied() {
        let what = CasePackets::Generate { size, flows: 1 };
        if wanted.has(SendCase::Generate) || needs_fastest && size == SIZES[0] as usize {
            add("generate", ours, what, params![size = size]);
        }
        if wanted.has(SendCase::Generate) {
            for sender in able(bed, size, job, |_| true) {
                add("generate", SendSubject::Peer(sender), what, params![size = size]);
            }
        }
        if wanted.has(SendCase::Engine) {
            for engine in [Ours::Kernel, Ours::Xdp, Ours::Packet] {
                let params = params![engine = engine.label(), size = size];
                add("engine", SendSubject::Ours(engine), what, params);
            }
        }
        if wanted.has(SendCase::Replay) {
            let what = CasePackets::Loop { size };
            add("replay", ours, what, params![size = size]);
            for sender in able(bed, size, job, SendProgram::replays) {
                add("replay", SendSubject::Peer(sender), what, params![size = size]);
            }
        }
    }
    if wanted.has(SendCase::Rate) {
        for percent in PERCENTS {
            add("rate", ours, CasePackets::Rate { percent }, params![percent = percent]);
        }
    }
    if wanted.has(SendCase::Timing) && bed.notes_times() {
        // As long as two other samples.
        let packets = (window.as_micros() as u64 * 2 / GAP_US).max(1000);
        add("timing", ours, CasePackets::Timing { packets }, params![gap_us = GAP_US]);
        for sender in able(bed, SIZES[0] as usize, job, SendProgram::replays) {
            let what = CasePackets::Timing { packets };
            add("timing", SendSubject::Peer(sender), what, params![gap_us = GAP_US]);
        }
    }
    if wanted.has(SendCase::Flows) {
        for engine in Ours::ALL {
            for flows in [1, FLOWS] {
                let params = params![engine = engine.label(), flows = u64::from(flows)];
                let what = CasePackets::Generate { size: SIZES[0] as usize, flows };
                add("flows", SendSubject::Ours(engine), what, params);
            }
        }
    }
    cases
}

/// The wanted programs that can send packets of this size.
fn able(
    bed: &SendBed,
    size: usize,
    job: &mut Job<'_>,
    is_wanted: impl Fn(&SendProgram) -> bool,
) -> Vec<SendProgram> {
    let packet = vec![0; size];
    let file = bed.file(size);
    let order = SendTask { interface: bed.interface(), cpu: bed.cpu, packet: &packet, file: &file };
    let mut able = SENDERS.to_vec();
    able.retain(|sender| {
        let command = is_wanted(sender).then(|| sender.command(&order));
        command.is_some_and(|command| match command {
            Ok(_) => true,
            Err(reason) => {
                job.skip(sender.name, reason);
                false
            }
        })
    });
    able
}

/// The drift of one long replay.
fn drift(length: Duration, bed: &SendBed, job: &mut Job<'_>) -> Result<Sample> {
    const NAME: &str = "drift.pcap";
    let packets = length.as_micros() as u64 / DRIFT_GAP_US + 1;
    let times = file::even(packets, DRIFT_GAP_US);
    let make = |path: &Path| case::replay(SendSubject::Ours(Ours::Default), bed, path);
    let arrivals = bed.replay(NAME, &times, make, job);
    bed.forget(NAME);
    let found = errors(&arrivals?, &times);
    let found = found.ok_or_else(|| Error::failed("drift", "too few packets"))?;
    let drift = [
        SampleFigure::new("error_drift_ns", found.drift.abs()),
        SampleFigure::new("stretch", found.stretch),
    ];
    Ok(drift.into_iter().chain(case::timing_figures(&found)).into())
}
