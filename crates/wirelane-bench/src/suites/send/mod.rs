//! The suite `send`: `wirelane send` beside other programs that send, and how exactly it keeps
//! rates and times.
//!
//! ```text
//!   first CPU: wirelane send │ tcpreplay │ trafgen │ … ─▶ wl-a ═══ wl-b: a program that drops, and counts or notes times
//! ```
//!
//! All are processes on the same CPU. What arrives at the far end counts, for all alike: the
//! receiver is a program of a few instructions, and runs on the sender's CPU, so the sender is the
//! limit and pays for the way through the cable.

mod arrivals;
mod bed;
mod case;
mod errors;
mod file;
mod named;
mod ours;
pub(crate) mod shape;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use wirelane::error::Result;

use self::bed::Bed;
use self::case::{Case, Figure, GAP_US, Subject, What};
use self::errors::errors;
pub use self::named::Named;
use self::ours::Ours;
use self::shape::{FLOWS, PERCENTS, SUITE};
use crate::peers::process::patience;
use crate::peers::senders::{Order, SENDERS, Sender};
use crate::report::Report;
use crate::row::{Param, Params};
use crate::suite::{Effort, Progress, Suite};
use crate::suites::turns::{self, ProcessPlan};
use wirelane_cli::args;

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
    #[command(flatten)]
    effort: Effort,
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

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct SendPlan<'a> {
    /// Our own command.
    pub own: &'a Path,
    /// What.
    pub cases: Vec<SendCase>,
    /// Bytes of the packets, without frame check sequence.
    pub sizes: Vec<usize>,
    /// Rounds, which is samples of every figure.
    pub samples: usize,
    /// How long one sample counts.
    pub window: Duration,
    /// How long the replay takes whose drift is measured.
    pub drift: Duration,
    /// How many of these there are.
    pub drifts: usize,
    /// No round begins that would end later than this.
    pub limit: Option<Duration>,
}

impl Suite for SendSuite {
    const NAME: &'static str = SUITE;
    const USUAL: [u64; 2] = [45, 130];

    fn for_report(effort: Effort, _: &Path) -> Self {
        let (port, count_at, seconds, drift) = (None, None, None, None);
        let (cases, sizes) = (Vec::new(), SIZES.to_vec());
        Self { port, count_at, cases, sizes, seconds, drift, effort }
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
        let quick = self.effort.quick;
        let own = turns::own()?;
        let window = match quick {
            true => Duration::from_millis(150),
            false => self.effort.window(Duration::from_secs(1)),
        };
        // In a report several short ones, so that one of them proves something.
        let (drift, drifts) = match (quick, self.effort.brief) {
            (true, _) => (3, 1),
            (false, true) => (5, self.samples()),
            (false, false) => (600, 1),
        };
        let drift = Duration::from_secs(drift);
        let all = SendCase::value_variants();
        let plan = SendPlan {
            own: &own,
            cases: if self.cases.is_empty() { all.to_vec() } else { self.cases.clone() },
            sizes: self.sizes.iter().map(|size| *size as usize).collect(),
            samples: self.samples(),
            window: self.seconds.unwrap_or(window),
            drift: self.drift.unwrap_or(drift),
            drifts,
            limit,
        };
        let named = self.port.as_deref().map(|port| Named::open(port, self.count_at.as_deref()));
        send(&plan, named.transpose()?, report, stop, progress)
    }
}

/// Measures what `plan` says, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// There is not enough memory for what is sent out of the interfaces that were `named`. Otherwise
/// what cannot be measured is skipped with its reason.
pub fn send(
    plan: &SendPlan<'_>,
    named: Option<Named>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let begin = Instant::now();
    let is_named = named.is_some();
    let bed = match Bed::new(plan.own, named, &plan.sizes, patience(plan.limit)) {
        Ok(bed) => bed,
        Err(error) if is_named => return Err(error),
        Err(error) => {
            report.skip(SUITE, "all", error.to_string());
            return Ok(());
        }
    };
    let has_drift = plan.cases.contains(&SendCase::Drift) && bed.notes_times();
    if !bed.notes_times() {
        for (case, name) in [(SendCase::Timing, "timing"), (SendCase::Drift, "drift")] {
            let reason =
                "when packets arrive is noted at the other end of the cable: --count-at IF";
            if plan.cases.contains(&case) {
                report.skip(SUITE, name, reason.to_owned());
            }
        }
    }
    let after = if has_drift { plan.drift * plan.drifts as u32 } else { Duration::ZERO };
    let mut cases = cases(plan, &bed, report);
    let limit = plan.limit.map(|limit| limit.saturating_sub(begin.elapsed() + after));
    let (own, samples, window) = (plan.own, plan.samples, plan.window);
    let turns = ProcessPlan { own, samples, window, limit, disk: None };
    if !cases.is_empty() {
        turns::take(SUITE, &turns, &mut cases, report, stop, progress);
    }
    report.rows.extend(cases.iter().flat_map(Case::rows));
    let mut drifts = Vec::new();
    for round in 1..=if has_drift { plan.drifts } else { 0 } {
        let is_late =
            round > 1 && plan.limit.is_some_and(|limit| begin.elapsed() + plan.drift > limit);
        if stop.load(Ordering::Relaxed) || is_late {
            break;
        }
        progress(round as u32, "a long file in its own time");
        match drift(plan, &bed, report, stop) {
            Ok(found) => drifts.extend(found),
            Err(error) => report.skip(SUITE, "drift", error.to_string()),
        }
    }
    let params = vec![("seconds", Param::Number(plan.drift.as_secs()))];
    let params = Params([bed.params(), params].concat());
    report.rows.extend(case::rows("drift", None, &params, &drifts));
    Ok(())
}

/// Everything that is measured in rounds. Others that are missing are skipped with the reason.
fn cases<'a>(plan: &SendPlan<'_>, bed: &'a Bed<'a>, report: &mut Report) -> Vec<Case<'a>> {
    let mut cases = Vec::new();
    let mut add = |name, subject, what, params: Vec<(&'static str, Param)>| {
        let params = Params([bed.params(), params].concat());
        let (window, samples) = (plan.window, Vec::new());
        cases.push(Case { bed, name, subject, what, params, window, samples });
    };
    let wants = |case| plan.cases.contains(&case);
    let of_size = |size: usize| ("size", Param::Number(size as u64));
    let ours = Subject::Ours(Ours::Default);
    // The rate and the flows are compared with it.
    let needs_fastest = wants(SendCase::Rate) && !wants(SendCase::Generate);
    for size in &plan.sizes {
        let what = What::Generate { size: *size, flows: 1 };
        if wants(SendCase::Generate) || needs_fastest && *size == SIZES[0] as usize {
            add("generate", ours, what, vec![of_size(*size)]);
        }
        if wants(SendCase::Generate) {
            for sender in able(bed, *size, report, |_| true) {
                add("generate", Subject::Peer(sender), what, vec![of_size(*size)]);
            }
        }
        if wants(SendCase::Engine) {
            for engine in [Ours::Kernel, Ours::Xdp, Ours::Packet] {
                let params = vec![("engine", Param::Text(engine.label())), of_size(*size)];
                add("engine", Subject::Ours(engine), what, params);
            }
        }
        if wants(SendCase::Replay) {
            let what = What::Loop { size: *size };
            add("replay", ours, what, vec![of_size(*size)]);
            for sender in able(bed, *size, report, Sender::replays) {
                add("replay", Subject::Peer(sender), what, vec![of_size(*size)]);
            }
        }
    }
    if wants(SendCase::Rate) {
        for percent in PERCENTS {
            let params = vec![("percent", Param::Number(percent))];
            add("rate", ours, What::Rate { percent }, params);
        }
    }
    if wants(SendCase::Timing) && bed.notes_times() {
        // As long as two other samples.
        let packets = (plan.window.as_micros() as u64 * 2 / GAP_US).max(1000);
        let params = || vec![("gap_us", Param::Number(GAP_US))];
        add("timing", ours, What::Timing { packets }, params());
        for sender in able(bed, SIZES[0] as usize, report, Sender::replays) {
            add("timing", Subject::Peer(sender), What::Timing { packets }, params());
        }
    }
    if wants(SendCase::Flows) {
        for engine in Ours::ALL {
            for flows in [1, FLOWS] {
                let params = vec![
                    ("engine", Param::Text(engine.label())),
                    ("flows", Param::Number(u64::from(flows))),
                ];
                let what = What::Generate { size: SIZES[0] as usize, flows };
                add("flows", Subject::Ours(engine), what, params);
            }
        }
    }
    cases
}

/// The others that can send packets of this size, of those that are wanted.
fn able(
    bed: &Bed<'_>,
    size: usize,
    report: &mut Report,
    is_wanted: impl Fn(&Sender) -> bool,
) -> Vec<Sender> {
    let packet = vec![0; size];
    let file = bed.file(size);
    let order = Order { interface: bed.interface(), cpu: bed.cpu, packet: &packet, file: &file };
    let mut able = Vec::new();
    for sender in SENDERS.into_iter().filter(is_wanted) {
        match sender.command(&order) {
            Ok(_) => able.push(sender),
            Err(reason) => report.skip(SUITE, sender.name, reason),
        }
    }
    able
}

/// The drift of one long replay; `None` if it was stopped.
fn drift(
    plan: &SendPlan<'_>,
    bed: &Bed<'_>,
    report: &mut Report,
    stop: &AtomicBool,
) -> Result<Option<Vec<Figure>>> {
    const NAME: &str = "drift.pcap";
    let packets = plan.drift.as_micros() as u64 / DRIFT_GAP_US + 1;
    let times = file::even(packets, DRIFT_GAP_US);
    let mut commands = Vec::new();
    let make = |path: &Path| case::replay(Subject::Ours(Ours::Default), bed, path);
    let arrivals = bed.replay(NAME, &times, make, stop, &mut commands);
    bed.forget(NAME);
    commands.drain(..).for_each(|command| report.environment.add_command(command));
    let Some(arrivals) = arrivals? else { return Ok(None) };
    let Some(found) = errors(&arrivals, &times) else { return Ok(None) };
    let drift = vec![("error_drift_ns", "ns", found.drift.abs()), ("stretch", "1", found.stretch)];
    Ok(Some([drift, case::timing_figures(&found)].concat()))
}
