//! CPU time per captured packet, beside tcpdump, dumpcap and netsniff-ng.
//!
//! ```text
//!   CPU 0: sender ─▶ veth ─▶ the kernel's receive work ─▶ ring of the capture     CPU 1: capture
//! ```
//!
//! The sender pays for what the kernel does until a packet lies in the ring, for every program
//! alike; what is compared is the CPU time of the capturing process. It is told twice: of the whole
//! process, and of the time under load alone: starting and ending cost the same for any number of
//! packets, and most of that is the kernel clearing the memory of the ring.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wirelane_bench::peers::capture::{PROGRAMS, Program};
use wirelane_os::clock;
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::veth::VethPair;

use super::load::{self, Load};
use super::process::{Scratch, on_cpus, two_cpus};
use super::report::{Report, Row, Target, median};
use super::{Context, Result};

/// Receive queues of the interface.
const QUEUES: u32 = 2;
const LIMIT: Duration = Duration::from_secs(20);
/// From the moment that a program says it is ready until it is.
const SETTLE: Duration = Duration::from_millis(300);
/// Longer than any ring keeps a packet: tcpdump's hands over after a second.
const DRAIN: Duration = Duration::from_millis(1300);

/// What one run of one program took.
struct Sample {
    /// CPU time of the whole process.
    total: Duration,
    /// The part of it from the first packet to the last one.
    loaded: Duration,
    captured: u64,
    lost: u64,
    /// The sender's time in system calls.
    sender: Duration,
}

pub(super) fn run(context: &Context, report: &mut Report) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        report.skip("cpu", "needs root, for network namespaces");
        return Ok(());
    }
    let mut programs = Vec::new();
    for program in &PROGRAMS {
        match (program.command(&context.wirelane, "", None), program.package) {
            (None, Some(package)) => {
                let reason = format!("{} is missing; Debian package {package}", program.name);
                report.skip("cpu", reason);
            }
            _ => programs.push(program),
        }
    }
    let seconds = if context.quick { 1 } else { 5 };
    let load = Load { packets: seconds * 300_000, per_second: 300_000, size: 64 };
    for target in [None, Some("memory")] {
        measure(context, report, &programs, load, target)?;
    }
    Ok(())
}

/// Measures all programs in one condition.
fn measure(
    context: &Context,
    report: &mut Report,
    programs: &[&Program],
    load: Load,
    target: Option<&str>,
) -> Result<()> {
    let mut samples: Vec<Vec<Sample>> = programs.iter().map(|_| Vec::new()).collect();
    for round in 0..context.rounds() {
        // Another one begins each round, so that none is always the first.
        for turn in 0..programs.len() {
            let i = (round + turn) % programs.len();
            let sample = sample(context, programs[i], load, target.is_some())?;
            println!(
                "{:<12} {:<8} {:6.1} ns/packet, {:6.1} under load; {} captured, {} lost; \
                 sender {:5.0} ns/packet",
                programs[i].name,
                target.unwrap_or("none"),
                sample.per_packet(),
                sample.under_load(),
                sample.captured,
                sample.lost,
                sample.sender.as_nanos() as f64 / load.packets as f64,
            );
            samples[i].push(sample);
        }
    }
    let params = json!({ "target": target, "port": "packet", "size": load.size,
                         "packets_per_s": load.per_second, "packets": load.packets });
    let row = |peer: Option<&str>, metric, unit, samples| Row {
        case: "cpu",
        peer: peer.map(str::to_owned),
        params: params.clone(),
        metric,
        unit,
        samples,
        target: None,
    };
    for (program, samples) in programs.iter().zip(&samples) {
        let peer = (!program.is_ours()).then_some(program.name);
        let figures = |of: fn(&Sample) -> f64| samples.iter().map(of).collect::<Vec<_>>();
        report.add(row(peer, "cpu_ns_per_packet", "ns", figures(Sample::per_packet)));
        report.add(row(peer, "cpu_ns_per_packet_under_load", "ns", figures(Sample::under_load)));
        let lost = figures(|sample| sample.lost as f64);
        if lost.iter().any(|lost| *lost > 0.0) {
            report.add(row(peer, "lost_packets", "", lost));
        }
    }
    compare(report, programs, &samples, &params);
    Ok(())
}

/// Adds the ratio of ours to the best peer's, from the rounds in which neither lost a packet.
fn compare(report: &mut Report, programs: &[&Program], samples: &[Vec<Sample>], params: &Value) {
    let of = |wanted: &dyn Fn(&Program) -> bool| {
        let chosen = programs.iter().zip(samples).filter(move |(program, _)| wanted(program));
        chosen.map(|(program, samples)| (program.name, samples)).collect::<Vec<_>>()
    };
    let lossless = |samples: &[Sample]| samples.iter().all(|sample| sample.lost == 0);
    let (ours, peers) = (of(&Program::is_ours), of(&|program| !program.is_ours()));
    let Some((_, ours)) = ours.first().filter(|(_, samples)| lossless(samples)) else {
        report.skip("cpu", "no ratio: wirelane lost packets");
        return;
    };
    let cost =
        |samples: &[Sample]| median(&samples.iter().map(Sample::under_load).collect::<Vec<_>>());
    let best = peers
        .into_iter()
        .filter(|(_, samples)| lossless(samples))
        .min_by(|(_, a), (_, b)| cost(a).total_cmp(&cost(b)));
    let Some((name, theirs)) = best else {
        report.skip("cpu", "no ratio: no peer that lost nothing");
        return;
    };
    let mut params = params.clone();
    params["best_peer"] = name.into();
    let ratio =
        |of: fn(&Sample) -> f64| ours.iter().zip(theirs).map(|(a, b)| of(a) / of(b)).collect();
    for (metric, samples, target) in [
        ("cpu_ratio_under_load", ratio(Sample::under_load), Some(Target::AtMost(0.7))),
        ("cpu_ratio", ratio(Sample::per_packet), Some(Target::AtMost(0.7))),
    ] {
        report.add(Row {
            case: "cpu",
            peer: None,
            params: params.clone(),
            metric,
            unit: "",
            samples,
            target,
        });
    }
}

impl Sample {
    /// CPU time per packet, in nanoseconds.
    fn per_packet(&self) -> f64 {
        self.total.as_nanos() as f64 / self.captured.max(1) as f64
    }

    /// The same without starting and ending.
    fn under_load(&self) -> f64 {
        self.loaded.as_nanos() as f64 / self.captured.max(1) as f64
    }
}

/// Runs one program once, under load, in namespaces of its own.
fn sample(context: &Context, program: &Program, load: Load, write: bool) -> Result<Sample> {
    context.proceed()?;
    let [sender, capturer] = two_cpus()?;
    let (near, far) = (Namespace::new(), Namespace::new());
    let veth = VethPair::new(&near, &far, QUEUES, 1500);
    let scratch = Scratch::new()?;
    let file = write.then(|| scratch.file("capture"));
    let interface = veth.b.interface.as_str();
    let mut command = program
        .command(&context.wirelane, interface, file.as_deref())
        .ok_or_else(|| format!("{} is missing", program.name))?;

    // Nothing else is started until it has ended: the difference is its own.
    let before = clock::children_cpu();
    // The child inherits CPU and namespace; a program that sets them would be counted with it.
    let mut child = on_cpus(&[capturer], || far.inside(|| ChildGuard::spawn(&mut command)))?;
    child.wait_until(LIMIT, |child| {
        child.stderr().contains(program.ready) || child.stdout().contains(program.ready)
    });
    thread::sleep(SETTLE);
    let start = clock::threads_cpu(child.id());
    let sent = on_cpus(&[sender], || {
        near.inside(|| load::send(load, &veth.a.interface, &context.interrupted))
    })??;
    context.proceed()?;
    let drained = Instant::now() + DRAIN;
    while Instant::now() < drained {
        context.proceed()?;
        thread::sleep(Duration::from_millis(50));
    }
    let loaded = clock::threads_cpu(child.id()).saturating_sub(start);
    child.interrupt();
    let output = child.wait(LIMIT);
    let total = clock::children_cpu().since(before).total();

    if !output.status.success() {
        return Err(format!("{} failed: {}", program.name, output.stderr.trim()));
    }
    let counts = program.counts(&output.stdout, &output.stderr).ok_or_else(|| {
        format!(
            "{} does not tell how many packets it captured: {}",
            program.name,
            output.stderr.trim()
        )
    })?;
    let lost = load.packets.saturating_sub(counts.captured);
    let planned = load.packets as f64 / load.per_second as f64;
    if sent.elapsed.as_secs_f64() > 1.1 * planned {
        let took = sent.elapsed.as_secs_f64();
        println!("sending took {took:.1} s instead of {planned:.1} s: the machine is busy");
    }
    let lost = lost.max(counts.dropped);
    Ok(Sample { total, loaded, captured: counts.captured, lost, sender: sent.system })
}
