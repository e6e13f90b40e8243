//! The suite `gso`: the 2014 FreeBSD GSO paper's tables, TCP and UDP over IPv4 and IPv6 with the
//! kernel's segmentation offload, with Wirelane's, and with none.
//!
//! A transfer goes from one network namespace to another through a TAP device, `forward` and a veth
//! pair (`bed` has the path of each case), with everything on one CPU, of which a CPU quota
//! (`quota`) leaves the share that stands for one of the source's clock frequencies. So the figures
//! compare at equal CPU by construction: sender, forwarder, receiver and all softirqs of one case
//! have what those of another have. Beside the rate stands what the whole path spends per gigabyte
//! (`account` says how it is counted), which does not depend on what else runs on the machine as
//! the rate does.
//!
//! In the same rounds the segmenter is measured alone (`alone`), on the same CPU, without a quota.
//!
//! Every round measures every case once; a speed-up is that of one round. With the whole of a CPU
//! iperf3 repeats TCP with `wirelane` and with `none`, so that the speed-up does not hang on our
//! own sender and receiver.

mod account;
mod alone;
mod bed;
mod case;
mod iperf;
mod quota;
mod rows;
mod sample;
pub mod segment;
mod traffic;

use std::sync::atomic::{AtomicBool, Ordering};

use self::bed::Trial;
pub use self::case::GsoPlan;
use self::case::{SUITE, WHOLE, cases, is_repeated};
use self::quota::Quota;
use self::sample::GsoSeries;
use crate::peers;
use crate::report::Report;
use crate::statistics::quiet::Quiet;
use crate::statistics::rounds::Rounds;
use crate::suite::{Effort, Progress, Suite};
use clap::Args;
use std::path::Path;
use std::time::Duration;
use wirelane::checksum::Vectors;
use wirelane::error::Result;
use wirelane_cli::args;

/// Measure segmentation by the kernel's offload, by Wirelane and by none, as "GSO for FreeBSD"
/// (2014) did.
///
/// TCP, and UDP in datagrams of 9 KB, flow over IPv4 and IPv6 between two temporary network
/// namespaces, through a TAP device, a forwarder and a veth pair, all on one CPU. A cgroup limits
/// that CPU to 100, 86, 68, 50, 36 and 15 percent in place of the paper's clock frequencies.
///
/// The offload says who segments: "kernel" the kernel, without TAP device and Wirelane; "wirelane"
/// Wirelane; "device" a device that takes long frames; "partial" the kernel, just before the
/// device; "none" the kernel, before the TAP device; "stack" TCP itself, which is what the paper
/// calls none. Cases named gro- go in the other direction, where packets from a wire are merged or
/// not; those named vm- go from one TAP device to another, as between two virtual machines.
///
/// The tables show the rate, the CPU time per gigabyte, the speed-up of "wirelane" over "none" and
/// "stack", and the segmenter alone. Needs root.
#[derive(Args, Clone, Debug)]
pub struct GsoSuite {
    /// Measure this case only; may be given several times
    #[arg(long = "case", value_name = "CASE", value_parser = GsoPlan::CASES)]
    cases: Vec<String>,
    /// Measure this offload only; may be given several times
    #[arg(long = "offload", value_name = "OFFLOAD", value_parser = GsoPlan::OFFLOADS)]
    offloads: Vec<String>,
    /// Backend of the port at the wire: packet or xdp
    #[arg(long, value_name = "PORT", default_value = "packet", value_parser = backend)]
    port: &'static str,
    /// Limit the CPU to this percentage instead; may be given several times
    #[arg(long = "cpu", value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(5..=100))]
    shares: Vec<u64>,
    /// Connections, or senders of datagrams, at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    flows: u16,
    /// Make sums with these vectors at most, as a CPU does that has no wider ones
    #[arg(long, value_name = "VECTORS", value_parser = Vectors::ALL.map(Vectors::as_str))]
    vectors: Option<String>,
    /// Length of a sample [default: 500ms; with --quick 80ms]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
    #[command(flatten)]
    effort: Effort,
}

/// The backend of the port at the wire.
fn backend(text: &str) -> std::result::Result<&'static str, String> {
    let backends = ["packet", "xdp"];
    backends.into_iter().find(|name| *name == text).ok_or_else(|| {
        "write packet or xdp; an interface of yours cannot be measured here, because both ends of \
         each connection share a CPU and its quota, in namespaces of their own that would take the \
         interface away from the host: run 'wirelane forward tap:TAP packet:IF --gso' and iperf3 \
         with another host"
            .to_owned()
    })
}

impl Suite for GsoSuite {
    const NAME: &'static str = SUITE;
    const USUAL: [u64; 2] = [55, 195];
    const QUICK: Duration = Duration::from_secs(55);

    fn for_report(effort: Effort, _: &Path) -> Self {
        // In a short time the source's tables, and no more.
        let only = |names: &[&str]| match effort.quick {
            true => names.iter().map(|name| (*name).to_owned()).collect(),
            false => Vec::new(),
        };
        Self {
            cases: only(&["tcp4", "tcp6", "udp4", "udp6"]),
            offloads: only(&["kernel", "wirelane", "none", "stack"]),
            port: "packet",
            shares: Vec::new(),
            flows: 1,
            vectors: None,
            // Three spans of a quota, so that every line of the tables has its figure.
            seconds: effort.quick.then_some(Duration::from_millis(60)),
            effort,
        }
    }

    fn effort(&self) -> &Effort {
        &self.effort
    }

    fn samples(&self) -> usize {
        GsoPlan::of(&self.effort, None).samples
    }

    fn run(
        &self,
        limit: Option<Duration>,
        report: &mut Report,
        stop: &AtomicBool,
        progress: Progress<'_>,
    ) -> Result<()> {
        let mut plan = GsoPlan::of(&self.effort, limit);
        plan.window = self.seconds.unwrap_or(plan.window);
        if !self.shares.is_empty() {
            plan.shares.clone_from(&self.shares);
        }
        plan.cases.clone_from(&self.cases);
        plan.offloads.clone_from(&self.offloads);
        plan.flows = self.flows;
        let is_most = |one: &Vectors| Some(one.as_str()) == self.vectors.as_deref();
        if let Some(most) = Vectors::ALL.into_iter().find(is_most) {
            Vectors::limit(most);
        }
        plan.port = self.port;
        gso(&plan, report, stop, progress)
    }
}

/// Measures what `plan` says, and adds the rows to `report`.
///
/// `progress` gets the round and what is measured next. `stop` ends the run early and keeps what
/// was measured.
///
/// # Errors
/// None that a reason in the report could not say: what cannot be measured is skipped.
pub fn gso(
    plan: &GsoPlan,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let mut series: Vec<GsoSeries> = cases(plan)
        .into_iter()
        .map(|case| GsoSeries { case, samples: Vec::new(), theirs: Vec::new() })
        .collect();
    if let Err(error) = Quota::new(50) {
        report.skip(SUITE, "quota", error.to_string());
        series.retain(|one| one.case.cpu == WHOLE);
    }
    let iperf = plan.iperf.then(|| peers::find(iperf::PROGRAM)).flatten();
    if plan.iperf && iperf.is_none() && series.iter().any(|one| is_repeated(&one.case)) {
        report.skip(SUITE, iperf::PROGRAM, "not installed (Debian package iperf3)".to_owned());
    }
    let quiet = Quiet::choose().unwrap_or(Quiet { cpu: 0, step_ns: None, interrupts: None });
    report.environment.add_pinned(SUITE, quiet);
    let cpu = quiet.cpu;
    let mut refused = Vec::new();
    'rounds: for round in Rounds::new(plan.samples, plan.limit) {
        progress(round, "the segmenter alone");
        match quiet.run(alone::measure) {
            Ok(figures) => alone::rows(figures, report),
            Err(error) => report.skip(SUITE, "segment", error.to_string()),
        }
        for one in &mut series {
            if stop.load(Ordering::Relaxed) {
                break 'rounds;
            }
            let case = one.case;
            if refused.iter().any(|(other, _)| *other == case) {
                continue;
            }
            let (name, offloading) = (case.name(), case.offloading.as_str());
            let flows = if case.flows == 1 { "" } else { ", several flows" };
            let what = format!("{name}, offload {offloading}, {} % of a CPU{flows}", case.cpu);
            progress(round, &what);
            let (port, window) = (plan.port, plan.window);
            let trial = Trial { case, port, cpu, window, iperf: None, stop };
            match trial.run() {
                Ok(Some(sample)) => one.samples.push(sample),
                Ok(None) => break 'rounds,
                Err(error) => {
                    refused.push((case, error));
                    continue;
                }
            }
            let is_repeated = is_repeated(&case) && case.flows == plan.flows;
            let Some(path) = iperf.as_deref().filter(|_| is_repeated) else { continue };
            progress(round, &format!("{name}, offload {offloading}, by iperf3"));
            match (Trial { iperf: Some(path), ..trial }).run() {
                Ok(sample) => one.theirs.extend(sample),
                Err(error) => refused.push((case, error)),
            }
        }
    }
    rows::rows(&series, plan.port, report);
    for (case, error) in refused {
        report.skip(SUITE, case.name(), error.to_string());
    }
    Ok(())
}
