//! The suite `gso`: the 2014 FreeBSD GSO paper's tables, TCP and UDP over IPv4 and IPv6 with the
//! kernel's segmentation offload, with Wirelane's, and with none.
//!
//! A transfer passes from one network namespace to another through a TAP device, `forward` and a
//! veth pair (`bed` has the path of each case). Everything runs on one CPU, limited by a quota
//! (`quota`) that represents one of the source's clock frequencies. So all figures compare at equal
//! CPU time: sender, forwarder, receiver and all softirqs together have the same quota in each
//! case. In addition to the rate, a row has the CPU time of the whole path per gigabyte (`account`
//! describes how it is counted). Unlike the rate, it does not depend on the load of the machine.
//!
//! In the same rounds the segmenter is measured alone (`alone`), on the same CPU, without a quota.
//!
//! Every round measures every case once, and a speed-up is computed within a round. With a whole
//! CPU, iperf3 repeats TCP with `wirelane` and with `none`, so that the speed-up does not depend on
//! this suite's sender and receiver.

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

use std::path::Path;
use std::time::Duration;

use clap::Args;
use wirelane::error::Result;
use wirelane::internal::checksum::Vectors;
use wirelane_cli::args;

use self::bed::GsoTrial;
use self::case::{CASES, GsoCases, SUITE, SegmentationPlace, WHOLE, cases, is_repeated};
use self::quota::CpuQuota;
use self::sample::GsoSeries;
use crate::effort::Effort;
use crate::job::{Job, SamplingPlan};
use crate::peers;
use crate::statistics::quiet::Quiet;
use crate::statistics::rounds::Rounds;
use crate::suite::Suite;

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
    #[arg(long = "case", value_name = "CASE", value_parser = CASES)]
    cases: Vec<String>,
    /// Measure this offload only; may be given several times
    #[arg(long = "offload", value_name = "OFFLOAD",
          value_parser = SegmentationPlace::ALL.map(SegmentationPlace::as_str))]
    offloads: Vec<String>,
    /// Backend of the port at the wire: packet or xdp
    #[arg(long, value_name = "PORT", default_value = "packet", value_parser = backend)]
    port: &'static str,
    /// Limit the CPU to this percentage instead; may be given several times
    #[arg(long = "cpu", value_name = "PERCENT",
          value_parser = clap::value_parser!(u64).range(5..=100))]
    shares: Vec<u64>,
    /// Connections, or senders of datagrams, at once
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    flows: u16,
    /// Make sums with these vectors at most, as a CPU does that has no wider ones
    #[arg(long, value_name = "VECTORS", value_parser = Vectors::ALL.map(Vectors::as_str))]
    vectors: Option<String>,
    /// Length of a sample [default: 500ms; with --quick 80ms]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
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

    fn in_report(&mut self, effort: &Effort, _: &Path) {
        if !effort.quick {
            return;
        }
        // A quick report has only the source's tables.
        self.cases = ["tcp4", "tcp6", "udp4", "udp6"].map(str::to_owned).into();
        self.offloads = ["kernel", "wirelane", "none", "stack"].map(str::to_owned).into();
        // Three periods of a quota, so that every line of the tables has a figure.
        self.seconds = Some(Duration::from_millis(60));
    }

    /// A sample takes four periods of a quota (`quota`) with `--quick`, and five in a report.
    fn plan(&self, effort: &Effort) -> SamplingPlan {
        let plan = SamplingPlan::of(effort, [500, 100, 80]);
        let window = self.seconds.unwrap_or(plan.window);
        SamplingPlan { samples: effort.samples(5), window, ..plan }
    }

    fn run(&self, job: &mut Job<'_>) -> Result<()> {
        let mut tables = GsoCases::of(&job.effort);
        if !self.shares.is_empty() {
            tables.shares.clone_from(&self.shares);
        }
        tables.cases.clone_from(&self.cases);
        tables.offloads.clone_from(&self.offloads);
        (tables.flows, tables.port) = (self.flows, self.port);
        let is_most = |one: &Vectors| Some(one.as_str()) == self.vectors.as_deref();
        if let Some(most) = Vectors::ALL.into_iter().find(is_most) {
            Vectors::limit(most);
        }
        gso(&tables, job);
        Ok(())
    }
}

/// Measures all cases of the tables, and notes failures with their reason.
fn gso(tables: &GsoCases, job: &mut Job<'_>) {
    let mut series: Vec<GsoSeries> = cases(tables).into_iter().map(GsoSeries::new).collect();
    if job.or_skip("quota", CpuQuota::new(50)).is_none() {
        series.retain(|one| one.case.cpu == WHOLE);
    }
    let iperf = tables.iperf.then(|| peers::find(iperf::PROGRAM)).flatten();
    if tables.iperf && iperf.is_none() && series.iter().any(|one| is_repeated(&one.case)) {
        job.skip(iperf::PROGRAM, peers::missing(iperf::PROGRAM));
    }
    let quiet = Quiet::choose().unwrap_or(Quiet { cpu: 0, step_ns: None, interrupts: None });
    job.report.environment.add_pinned(SUITE, quiet);
    let (port, cpu, window, stop) = (tables.port, quiet.cpu, job.plan.window, job.stop);
    'rounds: for round in Rounds::new(job.plan.samples, job.plan.limit) {
        job.round = round;
        job.tell("the segmenter alone");
        if let Some(figures) = job.or_skip("segment", quiet.run(alone::measure)) {
            alone::rows(figures, job.report);
        }
        for one in series.iter_mut().filter(|one| one.refused.is_none()) {
            if job.is_stopped() {
                break 'rounds;
            }
            let case = one.case;
            let (name, offloading) = (case.name(), case.offloading.as_str());
            let flows = if case.flows == 1 { "" } else { ", several flows" };
            job.tell(&format!("{name}, offload {offloading}, {} % of a CPU{flows}", case.cpu));
            let trial = GsoTrial { case, port, cpu, window, iperf: None, stop };
            match trial.run() {
                Ok(Some(sample)) => one.samples.push(sample),
                Ok(None) => break 'rounds,
                Err(error) => {
                    one.refused = Some(error);
                    continue;
                }
            }
            let is_repeated = is_repeated(&case) && case.flows == tables.flows;
            let Some(path) = iperf.as_deref().filter(|_| is_repeated) else { continue };
            job.tell(&format!("{name}, offload {offloading}, by iperf3"));
            match (GsoTrial { iperf: Some(path), ..trial }).run() {
                Ok(sample) => one.theirs.extend(sample),
                Err(error) => one.refused = Some(error),
            }
        }
    }
    rows::rows(&series, port, job.report);
    for one in series {
        if let Some(error) = one.refused {
            job.skip(one.case.name(), error);
        }
    }
}
