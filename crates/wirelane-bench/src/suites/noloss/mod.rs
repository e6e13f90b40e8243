//! The suite `noloss`: the highest rate that a receiver takes without losing a packet, and how old
//! packets are when it has them (RFC 2544, sections 26.1 and 26.2).
//!
//! ```text
//!   the kernel makes a frame, writes the time into it ─▶ wl-a ═══ wl-b ─▶ ring ─▶ receiver: now - then
//!   a simulated interface has a packet due            ─────────────────────▶ receiver: now - due
//! ```
//!
//! Other programs receive from the same cable, on the same CPU, and are searched in the same way;
//! whether they lost anything is told by what they say they received and dropped when they end.
//!
//! A rate passes if nothing is lost in three trials, one after the other. The search halves the
//! range between what has passed and what has not, from all that the sender can send downwards; a
//! receiver that loses nothing of that is marked: the figure is the sender's then. Latencies are
//! measured afterwards, at the rate that was found and at half of it, so that looking at the clock
//! costs the search nothing. Every round searches for every receiver.

mod others;
mod path;
mod plan;
mod receiver;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use wirelane_os::affinity;

use self::others::{OTHERS, Other, Program};
use self::path::{Cable, Load, Path, Simulated};
pub use self::plan::NolossPlan;
use self::plan::{LOADS, Nature};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::statistics::rounds::Rounds;
use crate::suite::{Effort, Progress, Suite};
use crate::wire::{Wire, Wired};
use clap::Args;
use wirelane::error::{Error, Result};
use wirelane::placement::Placement;
use wirelane::port::{Backend, Spec};
use wirelane_cli::args;
use wirelane_lab::{Lab, LabConfig, Site};
use wirelane_send::ndr::{Found, Goal, Method, Search};

const SUITE: &str = "noloss";
/// Most trials until one has packets whose latency can be measured.
const PATIENCE: usize = 10;
/// How long a search may take: then what has passed until then is the figure. One of another
/// program is usually over in half a minute, as every step starts and ends the program.
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
    #[arg(long = "size", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=3000))]
    sizes: Vec<u32>,
    /// Length of a trial [default: 500ms; with --quick 30ms]
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
    #[command(flatten)]
    wire: Wire,
    #[command(flatten)]
    effort: Effort,
}

impl Suite for NolossSuite {
    const NAME: &'static str = SUITE;
    const USUAL: [u64; 2] = [15, 140];

    fn for_report(effort: Effort, _: &std::path::Path) -> Self {
        Self { sizes: Vec::new(), seconds: None, wire: Wire::default(), effort }
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
        let mut plan = NolossPlan::of(&self.effort, limit);
        plan.window = self.seconds.unwrap_or(plan.window);
        if !self.sizes.is_empty() {
            plan.sizes = self.sizes.iter().map(|size| *size as usize).collect();
        }
        let wired = self.wire.open()?;
        noloss(&plan, wired.as_ref(), report, stop, progress)
    }
}

/// What is searched for: where, in which mode, and the port to open.
const RECEIVERS: [(&str, Option<&str>); 4] = [
    ("sim", None),
    ("xdp-native", Some("xdp:wl-b?mode=native")),
    ("xdp-generic", Some("xdp:wl-b?mode=generic")),
    ("packet", Some("packet:wl-b")),
];

/// Measures what `plan` says, and adds the rows to `report`.
///
/// `progress` gets the round and what is measured next. `stop` ends the run early and keeps what
/// was measured.
///
/// # Errors
/// The port of the user's, `wired`, cannot be measured. Otherwise what cannot be measured is
/// skipped with its reason.
pub fn noloss(
    plan: &NolossPlan,
    wired: Option<&Wired>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let bed = SearchBed::new(plan, wired, report)?;
    let mut series = bed.series(plan, report)?;
    'rounds: for round in Rounds::new(plan.samples, plan.limit) {
        for one in series.iter_mut().filter(|one| one.refused.is_none()) {
            progress(round, &format!("{}, {} bytes", one.label, one.size));
            match bed.measure(one, plan, stop, report) {
                Ok(Some((nature, sample))) => {
                    one.nature = Some(nature);
                    one.samples.push(sample);
                }
                Ok(None) => break 'rounds,
                Err(error) if wired.is_some() => return Err(error),
                Err(error) => one.refused = Some(error),
            }
        }
    }
    for one in &series {
        report.rows.extend(one.rows(wired));
        if let Some(error) = &one.refused {
            report.skip(SUITE, one.label, error.to_string());
        }
    }
    Ok(())
}

/// All samples of one receiver.
struct SearchSeries {
    label: &'static str,
    /// A port of ours; with none, a simulated interface.
    port: Option<Spec>,
    /// Another program in place of that port.
    other: Option<Other>,
    size: usize,
    nature: Option<Nature>,
    samples: Vec<SearchSample>,
    refused: Option<Error>,
}

/// The result of one search.
struct SearchSample {
    found: Found,
    /// One for each of [`LOADS`]; empty where no rate passed, or nothing came.
    ages: Vec<Histogram<u64>>,
}

impl SearchSeries {
    fn rows(&self, wired: Option<&Wired>) -> Vec<Row> {
        let Some((backend, mode, queues)) = &self.nature else { return Vec::new() };
        let params = |load: Option<u64>| {
            let mut params = vec![
                ("port", Param::Text(backend)),
                ("mode", Param::Name(mode.clone())),
                ("size", Param::Number(self.size as u64)),
                ("queues", Param::Number(*queues)),
            ];
            params.extend(wired.into_iter().flat_map(Wired::params));
            params.extend(load.map(|load| ("load_percent", Param::Number(load))));
            Params(params)
        };
        let row = |load, metric, unit, samples: Vec<f64>| Row {
            suite: SUITE,
            case: "rx",
            peer: self.other.map(|other| other.name),
            params: params(load),
            metric,
            unit,
            samples,
            source: None,
        };
        let each =
            |of: &dyn Fn(&SearchSample) -> f64| self.samples.iter().map(of).collect::<Vec<_>>();
        let bound = |sample: &SearchSample| f64::from(u8::from(sample.found.sender_bound));
        let mut rows = vec![
            row(None, "packets_per_s", "1/s", each(&|sample| sample.found.rate)),
            row(None, "sender_bound_share", "1", each(&bound)),
        ];
        for (position, load) in LOADS.into_iter().enumerate() {
            let ages = || {
                let ages = self.samples.iter().filter_map(|sample| sample.ages.get(position));
                ages.filter(|ages| !ages.is_empty())
            };
            let of = |metric, value: &dyn Fn(&Histogram<u64>) -> u64| {
                row(Some(load), metric, "ns", ages().map(|ages| value(ages) as f64).collect())
            };
            rows.extend([
                of("latency_min_ns", &|ages| ages.min()),
                of("latency_p50_ns", &|ages| ages.value_at_quantile(0.5)),
                of("latency_p90_ns", &|ages| ages.value_at_quantile(0.9)),
                of("latency_p99_ns", &|ages| ages.value_at_quantile(0.99)),
                of("latency_p999_ns", &|ages| ages.value_at_quantile(0.999)),
                of("latency_max_ns", &|ages| ages.max()),
            ]);
        }
        rows.retain(|row| !row.samples.is_empty());
        rows
    }
}

/// Where packets pass.
struct SearchBed<'a> {
    lab: Option<Lab>,
    /// A port of the user's instead.
    wired: Option<&'a Wired>,
    sender: Option<u32>,
    /// The CPU of the first queue, and of another program.
    receiver: u32,
    placement: Placement,
}

impl<'a> SearchBed<'a> {
    fn new(plan: &NolossPlan, wired: Option<&'a Wired>, report: &mut Report) -> Result<Self> {
        let allowed = affinity::allowed_cpus().unwrap_or_default();
        let (sender, placement) = match allowed.as_slice() {
            [first, rest @ ..] if !rest.is_empty() => (Some(*first), Placement::of(rest)?),
            _ => (None, Placement::default()),
        };
        let receiver = allowed.get(1).or(allowed.first()).copied().unwrap_or(0);
        let lab = || {
            const ETHERNET_HEADER: usize = 14;
            let longest = plan.sizes.iter().max().copied().unwrap_or(0);
            let needed = longest.saturating_sub(ETHERNET_HEADER) as u32;
            let mtu = needed.max(LabConfig::default().mtu);
            let lab = Lab::new(LabConfig { mtu, ..LabConfig::default() })?;
            // What the sender redirects arrives in generic mode and at packet sockets, too.
            lab.far.set_gro(true)?;
            Ok::<_, Error>(lab)
        };
        let lab = match wired.is_none().then(lab) {
            None => None,
            Some(Ok(lab)) => Some(lab),
            Some(Err(error)) => {
                let in_lab = RECEIVERS.iter().map(|(label, _)| *label).filter(|of| *of != "sim");
                let in_lab = in_lab.chain(OTHERS.map(|other| other.name));
                in_lab.for_each(|case| report.skip(SUITE, case, error.to_string()));
                None
            }
        };
        Ok(Self { lab, wired, sender, receiver, placement })
    }

    /// Who sends, and where it is received; `None` without an interface.
    fn ends(&self) -> Result<Option<(&Site, &Site)>> {
        match (self.wired, &self.lab) {
            (Some(wired), _) => Ok(Some((wired.sender(SUITE)?, &wired.far))),
            (None, lab) => Ok(lab.as_ref().map(|lab| (&lab.near, &lab.far))),
        }
    }

    fn series(&self, plan: &NolossPlan, report: &mut Report) -> Result<Vec<SearchSeries>> {
        let mut all: Vec<(_, Option<Spec>, _)> = Vec::new();
        for (label, port) in RECEIVERS.into_iter().filter(|_| self.wired.is_none()) {
            let port = port.map(str::parse).transpose()?;
            all.push((label, port, None));
        }
        all.extend(self.wired.map(|wired| (wired.label(), Some(wired.spec.clone()), None)));
        // Without a lab they have been left out before.
        let has_ends = self.ends()?.is_some();
        for other in OTHERS.into_iter().filter(|_| has_ends) {
            let kind = self.wired.map(|wired| wired.spec.backend.unwrap_or(Backend::Packet));
            match other.reason_to_leave_out(plan, kind) {
                Some(reason) => report.skip(SUITE, other.name, reason),
                None => all.push((other.name, None, Some(other))),
            }
        }
        let mut series = Vec::new();
        for (label, port, other) in all {
            let few = if other.is_some() { plan.sizes_of_others } else { usize::MAX };
            for size in plan.sizes.iter().copied().take(few) {
                let (port, nature, samples, refused) = (port.clone(), None, Vec::new(), None);
                series.push(SearchSeries { label, port, other, size, nature, samples, refused });
            }
        }
        series.retain(|one| one.port.is_none() || has_ends);
        Ok(series)
    }

    /// Searches once. `None` if it was stopped.
    fn measure(
        &self,
        one: &SearchSeries,
        plan: &NolossPlan,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Option<(Nature, SearchSample)>> {
        let load = |near| Load::new(near, one.size, self.sender);
        let mut path: Box<dyn Path> = match (self.ends()?, one.other, &one.port) {
            (Some((near, far)), Some(other), _) => {
                let (size, load, cpu) = (one.size, load(near)?, self.receiver);
                let program = Program { other, size, load, far, cpu, stop };
                report.environment.add_command(program.line()?);
                Box::new(program)
            }
            (Some((near, far)), None, Some(spec)) => {
                let take = self.wired.map(|wired| wired.take);
                let at = Some((far, take));
                Box::new(Cable::new(load(near)?, spec, at, &self.placement)?)
            }
            _ => Box::new(Simulated::new(one.size, &self.placement)),
        };
        let end = Instant::now() + LONGEST_SEARCH;
        let Some(bound) = path.bound(plan.window)? else { return Ok(None) };
        // The path makes as many trials as a rate has to pass: they count as one here.
        let goal = Goal {
            loss_ratio: 0.0,
            exceed_ratio: 0.0,
            duration: plan.window,
            duration_sum: plan.window,
            width: plan.resolution,
        };
        let mut search = Search::new(bound.rate, vec![goal], Method::Bisection);
        // What all that can be sent showed is the first step, if it lost packets.
        if let Some(failed) = bound.failed
            && let Some(probe) = search.probe()
        {
            search.tell(probe, failed);
        }
        while let Some(probe) = search.probe().filter(|_| Instant::now() < end) {
            let Some(shot) = path.trials(probe.rate, plan.window, stop)? else { return Ok(None) };
            search.tell(probe, shot);
        }
        let found = search.found().first().copied().unwrap_or_default();
        if found.rate > 0.0 {
            for (position, load) in (0..).zip(LOADS) {
                let rate = found.rate * load as f64 / 100.0;
                // Where nothing came in time, there is no latency to tell.
                for _ in 0..PATIENCE {
                    if path.look(rate, plan.window, position)? || stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
        }
        let (nature, ages) = path.finish()?;
        Ok(Some((nature, SearchSample { found, ages })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_receiver_has_a_rate_and_latencies() {
        let plan =
            NolossPlan { samples: 1, window: Duration::from_millis(20), ..NolossPlan::quick() };
        let mut report = Report::new("test".into());
        noloss(&plan, None, &mut report, &AtomicBool::new(false), &mut |_, _| {}).unwrap();
        // A quick run has no other programs.
        let skipped = report.skipped.len() - OTHERS.len();
        assert!(skipped == 0 || skipped == 3, "{:?}", report.skipped);
        let of = |metric: &'static str| report.rows.iter().filter(move |row| row.metric == metric);
        assert_eq!(of("packets_per_s").count(), RECEIVERS.len() - skipped);
        // On a machine that has no time nothing may pass.
        let passed = of("packets_per_s").filter(|row| row.samples[0] > 0.0).count();
        // Nor may anything come at a low rate and in a short time.
        let latencies = of("latency_p99_ns").count();
        assert!((passed.min(1)..=LOADS.len() * passed).contains(&latencies), "{:?}", report.rows);
        for row in of("latency_p50_ns") {
            let max = of("latency_max_ns").find(|max| max.params == row.params).unwrap();
            assert!(row.samples[0] > 0.0 && row.samples[0] <= max.samples[0], "{row:?} {max:?}");
        }
    }

    #[test]
    fn a_run_is_stopped_at_once() {
        let mut report = Report::new("test".into());
        noloss(&NolossPlan::full(), None, &mut report, &AtomicBool::new(true), &mut |_, _| {})
            .unwrap();
        assert!(report.rows.is_empty());
    }
}
