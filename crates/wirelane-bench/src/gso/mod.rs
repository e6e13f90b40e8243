//! The suite `gso`: source 003's tables, TCP and UDP over IPv4 and IPv6 with the kernel's segmentation
//! offload, with Wirelane's, and with none.
//!
//! A transfer goes from one network namespace to another through a TAP device, `forward` and a veth pair
//! (`bed` has the path of each case), with everything on one CPU, of which a CPU quota (`quota`) leaves
//! the share that stands for one of the source's clock frequencies. So the figures compare at equal CPU by
//! construction: sender, forwarder, receiver and all softirqs of one case have what those of another have.
//! Beside the rate stands what the whole path spends per gigabyte (`account` says how it is
//! counted), which does not depend on what else runs on the machine as the rate does.
//!
//! In the same rounds the segmenter is measured alone (`alone`), on the same CPU, without a quota.
//!
//! Every round measures every case once; a speed-up is that of one round. With the whole of a CPU iperf3 repeats TCP
//! with `wirelane` and with `none`, so that the speed-up does not hang on our own sender and receiver.

mod account;
mod alone;
mod bed;
mod iperf;
mod quota;
mod rows;
mod traffic;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::bed::{Sample, Trial};
use self::quota::Quota;
use super::peers;
use super::quiet::Quiet;
use super::report::Report;
use super::rounds::Rounds;
use wirelane::error::Result;

const SUITE: &str = "gso";
/// Percent of a CPU that need no quota.
const WHOLE: u64 = 100;

/// What to measure, and how thoroughly.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rounds: samples of every figure.
    pub samples: usize,
    /// How long one sample counts.
    pub window: Duration,
    /// No round begins that would end later than this.
    pub limit: Option<Duration>,
    /// Shares of a CPU, in percent.
    pub shares: Vec<u64>,
    /// Only these of [`Plan::CASES`], unless there are none.
    pub cases: Vec<String>,
    /// Only these of [`Plan::OFFLOADS`], unless there are none.
    pub offloads: Vec<String>,
    /// The kind of port at the wire: `packet` or `xdp`.
    pub port: &'static str,
    /// Repeat TCP with iperf3, if it is installed.
    pub iperf: bool,
}

impl Plan {
    /// A share for each clock frequency of source 003: 2.93, 2.53, 2.00, 1.46, 1.05 and 0.45 GHz.
    pub const SHARES: [u64; 6] = [100, 86, 68, 50, 36, 15];

    /// The source's four tables, and merging what comes in.
    pub const CASES: [&'static str; 6] = ["tcp4", "tcp6", "udp4", "udp6", "gro-tcp4", "gro-tcp6"];
    /// Who makes packets of the wire's size: the device without Wirelane; the device behind Wirelane; the
    /// kernel's software behind Wirelane; Wirelane; the kernel's software before Wirelane; or TCP itself.
    pub const OFFLOADS: [&'static str; 6] =
        ["kernel", "device", "partial", "wirelane", "none", "stack"];

    /// A few minutes.
    pub fn full() -> Self {
        Self {
            samples: 3,
            window: Duration::from_millis(500),
            limit: None,
            shares: Self::SHARES.to_vec(),
            cases: Vec::new(),
            offloads: Vec::new(),
            port: "packet",
            iperf: true,
        }
    }

    /// About a minute: half of the shares.
    pub fn quick() -> Self {
        let (limit, shares) = (Some(Duration::from_secs(40)), vec![100, 50, 15]);
        Self { window: Duration::from_millis(100), limit, shares, iperf: false, ..Self::full() }
    }
}

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

/// Who makes packets of the wire's size; `bed` has the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offloading {
    Kernel,
    Device,
    Partial,
    Wirelane,
    None,
    Stack,
}

/// One line of a table of the source, in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    protocol: Protocol,
    v6: bool,
    /// From the far end: what is compared is merging.
    inbound: bool,
    offloading: Offloading,
    /// Percent of one CPU.
    cpu: u64,
}

impl Case {
    fn name(&self) -> &'static str {
        match (self.protocol, self.v6, self.inbound) {
            (Protocol::Tcp, false, false) => "tcp4",
            (Protocol::Tcp, true, false) => "tcp6",
            (Protocol::Tcp, false, true) => "gro-tcp4",
            (Protocol::Tcp, true, true) => "gro-tcp6",
            (Protocol::Udp, false, _) => "udp4",
            (Protocol::Udp, true, _) => "udp6",
        }
    }
}

impl Offloading {
    const ALL: [Self; 6] =
        [Self::Kernel, Self::Device, Self::Partial, Self::Wirelane, Self::None, Self::Stack];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Device => "device",
            Self::Partial => "partial",
            Self::Wirelane => "wirelane",
            Self::None => "none",
            Self::Stack => "stack",
        }
    }
}

impl Offloading {
    /// Whether Wirelane passes long frames on behind the port.
    const fn is_handed_on(self) -> bool {
        matches!(self, Self::Device | Self::Partial)
    }
}

/// All samples of one case, one per round.
struct Series {
    case: Case,
    samples: Vec<Sample>,
    /// Of iperf3.
    theirs: Vec<Sample>,
}

/// Measures what `plan` says, and adds the rows to `report`.
///
/// `progress` is told the round and what is measured next; `stop` ends the run early, with what
/// was measured until then.
///
/// # Errors
/// None that a reason in the report could not say: what cannot be measured is skipped.
pub fn gso(
    plan: &Plan,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let mut series: Vec<Series> = cases(plan)
        .into_iter()
        .map(|case| Series { case, samples: Vec::new(), theirs: Vec::new() })
        .collect();
    if let Err(error) = Quota::new(50) {
        report.skip(SUITE, "quota", error.to_string());
        series.retain(|one| one.case.cpu == WHOLE);
    }
    let iperf = plan.iperf.then(|| peers::find(iperf::PROGRAM)).flatten();
    if plan.iperf && iperf.is_none() && series.iter().any(|one| is_repeated(&one.case)) {
        report.skip(SUITE, iperf::PROGRAM, "not installed (Debian package iperf3)".to_owned());
    }
    let quiet = Quiet::choose().unwrap_or(Quiet { cpu: 0, interrupts: None });
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
            progress(round, &format!("{name}, offload {offloading}, {} % of a CPU", case.cpu));
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
            let Some(path) = iperf.as_deref().filter(|_| is_repeated(&case)) else { continue };
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

/// Whether iperf3 repeats a case.
fn is_repeated(case: &Case) -> bool {
    let is_compared = matches!(case.offloading, Offloading::Wirelane | Offloading::None);
    is_compared && case.protocol == Protocol::Tcp && !case.inbound && case.cpu == WHOLE
}

/// What is compared next to each other.
fn cases(plan: &Plan) -> Vec<Case> {
    let (tcp, udp) = (Protocol::Tcp, Protocol::Udp);
    let mut cases = Vec::new();
    for cpu in &plan.shares {
        for (protocol, inbound) in [(tcp, false), (udp, false), (tcp, true)] {
            for v6 in [false, true] {
                for offloading in Offloading::ALL {
                    cases.push(Case { protocol, v6, inbound, offloading, cpu: *cpu });
                }
            }
        }
    }
    let is_wanted = |list: &[String], name| list.is_empty() || list.iter().any(|one| one == name);
    let most = plan.shares.iter().max().copied();
    cases.retain(|case| {
        // UDP is fragmented by the stack in any case and not by ports, and nobody but us merges before the TAP
        // device. Only `packet:` hands frames on.
        let is_handed_on = case.offloading.is_handed_on();
        let is_extra = is_handed_on || case.offloading == Offloading::Stack;
        // What the source has not is measured with most of a CPU only, unless it was asked for.
        let is_asked_for = !plan.cases.is_empty() || !plan.offloads.is_empty();
        (case.protocol == tcp && !case.inbound || !is_extra)
            && (plan.port == "packet" || !is_handed_on)
            && (Some(case.cpu) == most || is_asked_for || !(is_extra || case.inbound))
            && is_wanted(&plan.cases, case.name())
            && is_wanted(&plan.offloads, case.offloading.as_str())
    });
    cases
}
/// The cgroup of this process that divides CPU time, in which quotas are made.
pub(super) fn cgroup() -> Option<std::path::PathBuf> {
    quota::own_cgroup().ok().map(|(directory, _)| directory)
}
