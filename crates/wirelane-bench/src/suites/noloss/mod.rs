//! The suite `noloss`: the highest rate that a receiver takes without losing a packet, and the age
//! of packets on receipt (RFC 2544, sections 26.1 and 26.2).
//!
//! ```text
//!   the kernel writes the time into a frame ─▶ wl-a ═══ wl-b ─▶ ring ─▶ receiver: now - then
//!   a simulated interface has a packet due  ─────────────────────────▶ receiver: now - due
//! ```
//!
//! Other programs receive from the same cable, on the same CPU, and are searched in the same way.
//! Their losses follow from the counts that they report when they end.
//!
//! A rate passes if no packet is lost in three trials, one after the other. The search halves the
//! range between rates that passed and rates that failed, starting at the highest rate of the
//! sender. A receiver that loses no packet at that rate is marked: the sender was the limit.
//! Latencies are measured after the search, at the rate found and at half of it, so that reading
//! the clock does not slow the search down. Every round searches for every receiver.

mod others;
mod path;
mod receiver;

use std::time::Duration;

use clap::Args;
use hdrhistogram::Histogram;
use wirelane::error::{Error, Result};
use wirelane::placement::Placement;
use wirelane::port::{Backend, Spec};
use wirelane_cli::args;
use wirelane_lab::{Lab, Site};
use wirelane_send::ndr::GoalResult;

use self::others::{OTHERS, Other, ReceiveProgram};
use self::path::{CablePath, LOADS, Nature, NolossLoad, Path, Simulated};
use crate::comparison::SENDER_BOUND;
use crate::effort::Effort;
use crate::job::{Case, Job, Sample, SampleFigure, SamplingPlan};
use crate::row::{Params, params};
use crate::suite::Suite;
use crate::suites::bed::{self, Bisection};
use crate::wire::{WireOptions, Wired};

/// The most trials until one has packets whose latency can be measured.
const PATIENCE: usize = 10;
/// The longest time of a search; the figure is then the best rate so far. The search of another
/// program usually takes half a minute, because every step starts and ends the program.
const LONGEST_SEARCH: Duration = Duration::from_secs(60);

/// Find the highest rate that each receiver takes without losing a packet, and the latency at that
/// rate.
///
/// A rate passes if nothing is lost in three trials (RFC 2544, section 26.1). The search halves the
/// range, starting from all the sender can send. Latency is from packet creation to receipt, at the
/// rate found and at half of it. The simulated interface needs no privilege. As root, real ports
/// are searched, too, in temporary network namespaces; without --quick also dpdk-testpmd, tcpdump,
/// dumpcap and netsniff-ng where installed (without latency). --port with --load searches a port of
/// yours, to which the kernel sends from another interface.
#[derive(Args, Clone, Debug)]
pub struct NolossSuite {
    /// Packet size without frame check sequence, 64 to 3000 bytes; may be given several times
    #[arg(long = "size", value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(64..=3000))]
    sizes: Vec<u32>,
    /// Length of a trial [default: 500ms; with --quick 30ms]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
    #[command(flatten)]
    wire: WireOptions,
}

impl Suite for NolossSuite {
    const NAME: &'static str = "noloss";
    const USUAL: [u64; 2] = [15, 140];

    fn plan(&self, effort: &Effort) -> SamplingPlan {
        let plan = SamplingPlan::of(effort, [500, 100, 30]);
        SamplingPlan { window: self.seconds.unwrap_or(plan.window), ..plan }
    }

    fn run(&self, job: &mut Job<'_>) -> Result<()> {
        let mut sought = Sought::of(&job.effort);
        if !self.sizes.is_empty() {
            sought.sizes = self.sizes.iter().map(|size| *size as usize).collect();
        }
        let wired = self.wire.open()?;
        noloss(&sought, wired.as_ref(), job)
    }
}

/// The sizes and the precision of a search.
#[derive(Clone, Debug)]
pub struct Sought {
    /// Bytes of the packets, without frame check sequence.
    pub sizes: Vec<usize>,
    /// Relative precision of the rate.
    pub resolution: f64,
    /// How many of the sizes, from the first, are also used for other programs. Every step of a
    /// search starts the program.
    pub sizes_of_others: usize,
}

impl Sought {
    /// The search of an effort.
    pub fn of(effort: &Effort) -> Self {
        // Programs that receive packet by packet are slow at any size: in a report one size is
        // enough. All rates of a report have the same precision, so that ratios are fair.
        Self {
            sizes: if effort.quick { vec![64] } else { vec![64, 1500] },
            resolution: effort.choose([0.02, 0.05, 0.05]),
            sizes_of_others: effort.choose([usize::MAX, 1, 0]),
        }
    }
}

/// The receivers of a search: the name and the port to open.
const RECEIVERS: [(&str, Option<&str>); 4] = [
    ("sim", None),
    ("xdp-native", Some("xdp:wl-b?mode=native")),
    ("xdp-generic", Some("xdp:wl-b?mode=generic")),
    ("packet", Some("packet:wl-b")),
];

/// Searches the highest rate of every receiver.
///
/// # Errors
/// The user's port `wired` cannot be measured. Otherwise a case that cannot be measured is skipped
/// with its reason.
pub fn noloss(sought: &Sought, wired: Option<&Wired>, job: &mut Job<'_>) -> Result<()> {
    let bed = &NolossBed::new(sought, wired, job)?;
    let receivers = bed.receivers(sought, job)?;
    let mut cases = Vec::new();
    for one in &receivers {
        let few = if one.other.is_some() { sought.sizes_of_others } else { usize::MAX };
        for size in sought.sizes.iter().copied().take(few) {
            let measure = move |job: &mut Job<'_>| bed.measure(one, size, sought.resolution, job);
            let title = format!("{}, {size} bytes", one.label);
            let case = Case::new("rx", Params::default(), title, measure);
            let case = case.of(one.other.map(|other| other.name)).skipped_as(one.label);
            cases.push(case.required(wired.is_some()).once());
        }
    }
    job.take(cases)
}

/// A receiver.
struct ReceiverCase {
    label: &'static str,
    /// A port of Wirelane; a simulated interface if there is neither a port nor another program.
    port: Option<Spec>,
    /// Another program instead of a port.
    other: Option<Other>,
}

/// The interfaces, and the CPUs of sender and receivers.
struct NolossBed<'a> {
    lab: Option<Lab>,
    /// The user's port, instead of the lab.
    wired: Option<&'a Wired>,
    sender: Option<u32>,
    /// The CPU of the first queue, and of another program.
    receiver: u32,
    placement: Placement,
}

impl<'a> NolossBed<'a> {
    fn new(sought: &Sought, wired: Option<&'a Wired>, job: &mut Job<'_>) -> Result<Self> {
        let (sender, receivers) = bed::sender_and_receivers();
        let receiver = receivers.first().copied().or(bed::cpus().first().copied()).unwrap_or(0);
        let longest = sought.sizes.iter().max().copied().unwrap_or(0);
        let lab = wired.is_none().then(|| bed::cable(1, longest)).and_then(|lab| {
            let skip = |error: Error| {
                let in_lab = RECEIVERS.iter().map(|(label, _)| *label).filter(|of| *of != "sim");
                let in_lab = in_lab.chain(OTHERS.map(|other| other.name));
                in_lab.for_each(|case| job.skip(case, &error));
            };
            lab.map_err(skip).ok()
        });
        let placement = match sender {
            Some(_) => Placement::of(&receivers)?,
            None => Placement::default(),
        };
        Ok(Self { lab, wired, sender, receiver, placement })
    }

    /// The sending and the receiving end; `None` without an interface.
    fn ends(&self) -> Result<Option<(&Site, &Site)>> {
        match (self.wired, &self.lab) {
            (Some(wired), _) => Ok(Some((wired.sender("noloss")?, &wired.far))),
            (None, lab) => Ok(lab.as_ref().map(|lab| (&lab.near, &lab.far))),
        }
    }

    /// All receivers that are available.
    fn receivers(&self, sought: &Sought, job: &mut Job<'_>) -> Result<Vec<ReceiverCase>> {
        let mut all = Vec::new();
        // Without a lab, these receivers were skipped before.
        let has_ends = self.ends()?.is_some();
        for (label, port) in RECEIVERS.into_iter().filter(|_| self.wired.is_none()) {
            if port.is_none() || has_ends {
                let port = port.map(str::parse).transpose()?;
                all.push(ReceiverCase { label, port, other: None });
            }
        }
        all.extend(self.wired.map(|wired| ReceiverCase {
            label: wired.label(),
            port: Some(wired.spec.clone()),
            other: None,
        }));
        for other in OTHERS.into_iter().filter(|_| has_ends) {
            let kind = self.wired.map(|wired| wired.spec.backend.unwrap_or(Backend::Packet));
            match other.reason_to_leave_out(sought.sizes_of_others > 0, kind) {
                Some(reason) => job.skip(other.name, reason),
                None => {
                    all.push(ReceiverCase { label: other.name, port: None, other: Some(other) });
                }
            }
        }
        Ok(all)
    }

    /// Searches once.
    fn measure(
        &self,
        one: &ReceiverCase,
        size: usize,
        resolution: f64,
        job: &mut Job<'_>,
    ) -> Result<Sample> {
        let (window, stop) = (job.plan.window, job.stop);
        let load = |near| NolossLoad::new(near, size, self.sender);
        let mut path: Box<dyn Path> = match (self.ends()?, one.other, &one.port) {
            (Some((near, far)), Some(other), _) => {
                let (load, cpu) = (load(near)?, self.receiver);
                let program = ReceiveProgram { other, size, load, far, cpu, stop };
                job.note(&program.command()?);
                Box::new(program)
            }
            (Some((near, far)), None, Some(spec)) => {
                let take = self.wired.map(|wired| wired.take);
                let at = Some((far, take));
                Box::new(CablePath::new(load(near)?, spec, at, &self.placement)?)
            }
            _ => Box::new(Simulated::new(size, &self.placement)),
        };
        let bound = path.bound(window)?;
        // The path makes all trials that a rate must pass; they count as one here. If the trial at
        // the sender's highest rate lost packets, it is the first step.
        let (most, first, width) = (bound.rate, bound.failed, resolution);
        let patience = LONGEST_SEARCH;
        let search = Bisection { most, first, width, duration: window, patience };
        let found = search.run(|rate| path.trials(rate, window, stop))?;
        if found.rate > 0.0 {
            for (position, load) in (0..).zip(LOADS) {
                let rate = found.rate * load as f64 / 100.0;
                // If no packet arrives in time, there is no latency to report.
                for _ in 0..PATIENCE {
                    if path.look(rate, window, position)? || job.is_stopped() {
                        break;
                    }
                }
            }
        }
        let (nature, ages) = path.finish()?;
        Ok(self.sample(size, nature, &found, &ages))
    }

    /// The rate, and the ages of each of [`LOADS`] if there are any.
    fn sample(
        &self,
        size: usize,
        (backend, mode, queues): Nature,
        found: &GoalResult,
        ages: &[Histogram<u64>],
    ) -> Sample {
        let mut figures = vec![
            SampleFigure::new("packets_per_s", found.rate),
            SampleFigure::new(SENDER_BOUND, f64::from(u8::from(found.sender_bound))),
        ];
        for (load, ages) in LOADS.into_iter().zip(ages).filter(|(_, ages)| !ages.is_empty()) {
            let at = |share| ages.value_at_quantile(share);
            let of = [
                ("latency_min_ns", ages.min()),
                ("latency_p50_ns", at(0.5)),
                ("latency_p90_ns", at(0.9)),
                ("latency_p99_ns", at(0.99)),
                ("latency_p999_ns", at(0.999)),
                ("latency_max_ns", ages.max()),
            ];
            figures.extend(of.map(|(metric, ns)| {
                SampleFigure::new(metric, ns as f64).under("load_percent", load)
            }));
        }
        let params = params![port = backend, mode = mode, size = size, queues = queues];
        let params = params.and(self.wired.into_iter().flat_map(Wired::params));
        Sample { figures, params: Some(params) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::job::measured;
    use crate::report::BenchReport;

    #[test]
    fn every_receiver_has_a_rate_and_latencies() {
        let plan = SamplingPlan { samples: 1, window: Duration::from_millis(20), limit: None };
        let sought = Sought::of(&Effort { quick: true, ..Effort::default() });
        let report = measured("noloss", plan, |mut job| noloss(&sought, None, &mut job)).unwrap();
        // A quick run has no other programs.
        let skipped = report.skipped.len() - OTHERS.len();
        assert!(skipped == 0 || skipped == 3, "{:?}", report.skipped);
        let of = |metric: &'static str| report.rows.iter().filter(move |row| row.metric == metric);
        assert_eq!(of("packets_per_s").count(), RECEIVERS.len() - skipped);
        // On a machine that has no time nothing may pass.
        let passed = of("packets_per_s").filter(|row| row.samples[0] > 0.0).count();
        // At a low rate, a short trial may receive no packet.
        let latencies = of("latency_p99_ns").count();
        assert!((passed.min(1)..=LOADS.len() * passed).contains(&latencies), "{:?}", report.rows);
        for row in of("latency_p50_ns") {
            let max = of("latency_max_ns").find(|max| max.params == row.params).unwrap();
            assert!(row.samples[0] > 0.0 && row.samples[0] <= max.samples[0], "{row:?} {max:?}");
        }
    }

    #[test]
    fn a_run_is_stopped_at_once() {
        let plan = SamplingPlan { samples: 1, window: Duration::from_millis(500), limit: None };
        let (stop, sought) = (AtomicBool::new(true), Sought::of(&Effort::default()));
        let mut report = BenchReport::new("test".into());
        let mut tell = |_: u32, _: &str| {};
        let mut job = Job::new("noloss", plan, &mut report, &stop, &mut tell);
        noloss(&sought, None, &mut job).unwrap();
        assert!(report.rows.is_empty());
    }
}
