//! The suites of `wirelane bench`: which cases are measured, how often, and the rows that follow.
//!
//! Every round measures every case once, ours and the peers' in turn, so that a slow minute of the
//! machine hits all of them; a difference between two cases is that of the same round.

mod bench;
mod bottleneck;
pub(crate) mod distance;
mod kernel;
pub mod ring;
mod rings;
pub mod rte_ring;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use self::bench::{
    Bench, MAX_PRODUCERS, QdiscCase, QdiscSample, uncontended_lock, uncontended_mutex,
};
use self::bottleneck::Bottleneck;
use self::kernel::Kernel;
use self::rings::Rings;
use crate::published::{Difference, difference, lock_operation, lock_pair};
use crate::report::Report;
use crate::row::{Param, Params, Row, Source};
use crate::statistics::rounds::Rounds;
use crate::suite::{Effort, Progress, Suite};
use crate::suites::loop_plan::LoopPlan;
use clap::Args;
use std::path::Path;
use wirelane::error::{Error, Result};
use wirelane::port::Spec;
use wirelane::qdisc::QdiscKind;

/// Measure queueing disciplines with 1 to 8 producers, rings between two cores, and a lock.
///
/// Producers send frames of 64 and 1500 bytes in batches through noqueue, fifo, bulk, pfifo_fast
/// and lockless to a simulated interface that counts and frees them. The disciplines count locks
/// and failed compare-and-swaps per packet. For comparison, the tables show the figures of "Qdisc
/// layer: fast enough for 10G wirespeed?" (2014), and of DPDK's rte_ring where dpdk-test is
/// installed (Debian: dpdk-dev). At a bottleneck of 100 Mbit/s, in simulated time, control waits
/// behind bulk: with bands, byte limits (BQL) and small queues (TSQ), and without. As root, a
/// packet socket also sends through the kernel's own queueing layer and around it, on a veth pair
/// with pfifo_fast or on --port. All CPUs are busy meanwhile: leave the machine alone.
#[derive(Args, Clone, Debug)]
pub struct QdiscSuite {
    /// Send through the kernel's queueing layer out of this interface (packet:IF), not into a veth
    /// pair
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    #[command(flatten)]
    effort: Effort,
}

impl Suite for QdiscSuite {
    const NAME: &'static str = SUITE;
    const USUAL: [u64; 2] = [25, 60];

    fn for_report(effort: Effort, _: &Path) -> Self {
        Self { port: None, effort }
    }

    fn effort(&self) -> &Effort {
        &self.effort
    }

    fn samples(&self) -> usize {
        LoopPlan::of(&self.effort, None).samples
    }

    fn run(
        &self,
        limit: Option<Duration>,
        report: &mut Report,
        stop: &AtomicBool,
        progress: Progress<'_>,
    ) -> Result<()> {
        let port: Option<Spec> = self.port.as_deref().map(str::parse).transpose()?;
        qdisc(&LoopPlan::of(&self.effort, limit), port.as_ref(), report, stop, progress)
    }
}

/// Nanoseconds that the 2014 qdisc paper gives each packet: 10 Gbit/s of minimum frames.
pub const BUDGET: f64 = 67.2;

const SUITE: &str = "qdisc";
const DISCIPLINES: [QdiscKind; 6] = [
    QdiscKind::Noqueue { round: None },
    QdiscKind::Fifo,
    QdiscKind::Bulk { round: 8 },
    QdiscKind::Bulk { round: 32 },
    QdiscKind::Lockless { bypass: true },
    QdiscKind::Lockless { bypass: false },
];
/// Packets that an application sends in one call.
const BATCH: usize = 32;
const PAIRS: usize = 1 << 19;

/// Measures the queueing disciplines, the kernel's own, the rings, and a lock, and adds the rows to
/// `report`. Through the kernel's it is sent out of the interface of `port`, or into a cable.
///
/// `progress` gets the round and what is measured next. `stop` ends the run early and keeps what
/// was measured.
///
/// # Errors
/// No memory for the frames or the simulated port; a discipline lost packets; `port` cannot be
/// used.
pub fn qdisc(
    plan: &LoopPlan,
    port: Option<&Spec>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let mut bench = Bench::new()?;
    let cases = cases();
    let mut samples: Vec<Vec<QdiscSample>> = vec![Vec::new(); cases.len()];
    let mut rings = Rings::new(&report.machine);
    let mut locks = [Vec::new(), Vec::new()];
    let cores = report.machine.cores as usize;
    let mut kernel = match Kernel::new(port) {
        Err(error) if port.is_some() => return Err(error),
        kernel => kernel.map_err(|error| report.skip(SUITE, kernel::CASE, error.to_string())).ok(),
    };
    let mut bottleneck = Bottleneck::default();
    let mut longest_peer = Duration::ZERO;
    let mut rounds = Rounds::new(plan.samples, plan.limit);
    while let Some(round) = rounds.next() {
        progress(round, "one lock");
        let [spin, mutex] = &mut locks;
        spin.push(uncontended_lock(PAIRS));
        mutex.push(uncontended_mutex(PAIRS));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if let Some(found) = &mut kernel {
            progress(round, "the kernel's queueing layer");
            if let Err(error) = found.measure(plan.window) {
                if port.is_some() {
                    return Err(error);
                }
                report.skip(SUITE, kernel::CASE, error.to_string());
                report.rows.extend(kernel.take().iter().flat_map(Kernel::rows));
            }
        }
        progress(round, "a bottleneck");
        bottleneck.measure(round)?;
        progress(round, "rings");
        rings.measure(round);
        // Once in any case: a ratio of one round is better than none.
        if plan.peers && (round == 1 || rounds.has_time_for(longest_peer)) {
            progress(round, "rte_ring");
            let started = Instant::now();
            rings.measure_peer(round, stop);
            longest_peer = longest_peer.max(started.elapsed());
            rounds.leave_out(started.elapsed());
        }
        for (case, samples) in cases.iter().zip(&mut samples) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let plural = if case.producers == 1 { "" } else { "s" };
            progress(round, &format!("{}, {} producer{plural}", case.discipline, case.producers));
            let window = plan.window * if case.producers > cores { 2 } else { 1 };
            let sample = bench.measure(case, window)?;
            if sample.dropped > 0 {
                let cause = format!("{} dropped {} packets", case.discipline, sample.dropped);
                return Err(Error::failed("benchmark", cause));
            }
            samples.push(sample);
        }
    }
    if !plan.peers {
        rings.leave_peer_out();
    }
    let [spin, mutex] = locks;
    report.rows.extend(lock_rows(None, spin));
    report.rows.extend(lock_rows(Some("std::sync::Mutex"), mutex));
    report.rows.extend(discipline_rows(&cases, &samples));
    report.rows.extend(kernel.iter().flat_map(Kernel::rows));
    report.rows.extend(bottleneck.rows());
    rings.finish(report);
    Ok(())
}

/// All disciplines next to each other, under each condition.
fn cases() -> Vec<QdiscCase> {
    let of = |producers, size, batch, build| {
        let case =
            |discipline| QdiscCase { discipline, batched: false, producers, size, batch, build };
        DISCIPLINES.map(case)
    };
    // One packet per call is the 2014 qdisc paper's case.
    let mut cases = of(1, 64, 1, false).to_vec();
    for producers in [1, 2, 4, MAX_PRODUCERS] {
        for size in [64, 1500] {
            cases.extend(of(producers, size, BATCH, false));
        }
    }
    for producers in [1, 2] {
        let case = |discipline, batched| QdiscCase {
            discipline,
            batched,
            producers,
            size: 64,
            batch: BATCH,
            build: false,
        };
        cases.push(case(QdiscKind::Fifo, true));
        cases.push(case(QdiscKind::Bulk { round: 32 }, true));
        cases.push(case(QdiscKind::PfifoFast { round: 32 }, false));
    }
    // From an application that writes its packets to the sink.
    cases.extend(of(2, 64, BATCH, true));
    cases
}

fn name(discipline: QdiscKind) -> &'static str {
    match discipline {
        QdiscKind::Noqueue { .. } => "noqueue",
        QdiscKind::Fifo => "fifo",
        QdiscKind::Bulk { .. } => "bulk",
        QdiscKind::PfifoFast { .. } => "pfifo_fast",
        QdiscKind::Lockless { .. } => "lockless",
    }
}

fn params(case: &QdiscCase) -> Params {
    let number = |value: usize| Param::Number(value as u64);
    let mut params = Vec::new();
    match case.discipline {
        QdiscKind::Bulk { round } | QdiscKind::PfifoFast { round } => {
            params.push(("round", Param::Number(round.into())));
        }
        QdiscKind::Lockless { bypass } => params.push(("bypass", Param::Flag(bypass))),
        QdiscKind::Noqueue { .. } | QdiscKind::Fifo => {}
    }
    if case.batched {
        params.push(("enqueue", Param::Text("batch")));
    }
    params.push(("producers", number(case.producers)));
    params.push(("size", number(case.size)));
    params.push(("batch", number(case.batch)));
    params.push(("build", Param::Flag(case.build)));
    Params(params)
}

/// A figure of the 2014 qdisc paper, which has them for one CPU that sends minimum frames, written
/// beforehand, one at a time.
fn source(case: &QdiscCase, of: Difference) -> Option<Source> {
    let is_comparable = case.producers == 1 && case.size == 64 && case.batch == 1 && !case.build;
    is_comparable.then(|| difference(of).source())
}

fn discipline_rows(cases: &[QdiscCase], samples: &[Vec<QdiscSample>]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (case, own) in cases.iter().zip(samples) {
        let row = |metric, unit, samples: Vec<f64>, source| Row {
            suite: SUITE,
            case: name(case.discipline),
            peer: None,
            params: params(case),
            metric,
            unit,
            samples,
            source,
        };
        let each = |figure: fn(&QdiscSample) -> f64| own.iter().map(figure).collect::<Vec<_>>();
        // Nanoseconds more than the same under another discipline in the same round.
        let over = |discipline| {
            let other = QdiscCase { discipline, batched: false, ..*case };
            let other = cases.iter().position(|case| *case == other).and_then(|i| samples.get(i));
            let pairs = own.iter().zip(other.into_iter().flatten());
            pairs.map(|(own, other)| own.ns_per_packet - other.ns_per_packet).collect::<Vec<_>>()
        };
        rows.push(row("ns_per_packet", "ns", each(|sample| sample.ns_per_packet), None));
        rows.push(row("packets_per_s", "1/s", each(|sample| 1e9 / sample.ns_per_packet), None));
        let share = each(|sample| sample.ns_per_packet / BUDGET);
        rows.push(row("budget_share", "1", share, None));
        rows.push(row("cpu_ns_per_packet", "ns", each(|sample| sample.cpu_ns_per_packet), None));
        let noqueue = QdiscKind::Noqueue { round: None };
        match case.discipline {
            QdiscKind::Noqueue { .. } => {}
            QdiscKind::Fifo => {
                rows.push(row(
                    "ns_over_noqueue",
                    "ns",
                    over(noqueue),
                    source(case, Difference::FifoOverNone),
                ));
            }
            QdiscKind::Bulk { .. } | QdiscKind::PfifoFast { .. } => {
                rows.push(row("ns_over_noqueue", "ns", over(noqueue), None));
            }
            QdiscKind::Lockless { bypass } => {
                let (more, less) = if bypass {
                    (Difference::LocklessOverNone, Difference::LocklessUnderFifo)
                } else {
                    (Difference::RingOverNone, Difference::RingUnderFifo)
                };
                rows.push(row("ns_over_noqueue", "ns", over(noqueue), source(case, more)));
                let saved = over(QdiscKind::Fifo).into_iter().map(|ns| -ns).collect();
                rows.push(row("ns_under_fifo", "ns", saved, source(case, less)));
            }
        }
        if case.discipline == (QdiscKind::Lockless { bypass: false }) {
            let bypass = QdiscKind::Lockless { bypass: true };
            rows.push(row(
                "ns_over_bypass",
                "ns",
                over(bypass),
                source(case, Difference::RingOverBypass),
            ));
        }
        rows.push(row("locks_per_packet", "1", each(|sample| sample.locks_per_packet), None));
        let retries = each(|sample| sample.cas_retries_per_packet);
        rows.push(row("cas_retries_per_packet", "1", retries, None));
        rows.push(row("bypassed_share", "1", each(|sample| sample.bypassed), None));
    }
    rows.retain(|row| !row.samples.is_empty());
    rows
}

/// A pair of operations, and one of them: the 2014 qdisc paper counts operations, of 8 ns.
fn lock_rows(peer: Option<&'static str>, pairs: Vec<f64>) -> [Row; 2] {
    let operations = pairs.iter().map(|pair| pair / 2.0).collect();
    let row = |metric, samples, source| Row {
        suite: SUITE,
        case: "lock",
        peer,
        params: Params::default(),
        metric,
        unit: "ns",
        samples,
        source,
    };
    [
        row("ns_per_pair", pairs, Some(lock_pair().source())),
        row("ns_per_operation", operations, Some(lock_operation().source())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const BRIEF: LoopPlan =
        LoopPlan { samples: 2, window: Duration::from_millis(1), limit: None, peers: false };

    fn measured(plan: &LoopPlan, stop: bool) -> Report {
        let mut report = Report::new("test".into());
        qdisc(plan, None, &mut report, &AtomicBool::new(stop), &mut |_, _| {}).unwrap();
        report
    }

    #[test]
    fn every_figure_has_one_row_and_every_sample() {
        let report = measured(&BRIEF, false);
        let mut seen = HashSet::new();
        for row in &report.rows {
            assert!(seen.insert(format!("{:?}", (row.case, row.peer, &row.params, row.metric))));
            // The CPUs may have moved between two rounds, or while a ring was measured.
            let is_of_ring = row.params.has(("cores", "2"));
            assert!(row.samples.len() == 2 || is_of_ring && row.samples.len() == 1, "{row:?}");
            assert!(row.samples.iter().all(|sample| sample.is_finite()), "{row:?}");
        }
        let has = |case: &str, metric: &str| {
            report.rows.iter().filter(|row| (row.case, row.metric) == (case, metric)).count()
        };
        // Four numbers of producers and two sizes; one packet per call; built packets. And one and
        // two producers whose batches are enqueued at once, or in bands.
        assert_eq!((has("noqueue", "ns_per_packet"), has("fifo", "ns_over_noqueue")), (10, 12));
        assert_eq!((has("bulk", "locks_per_packet"), has("lockless", "packets_per_s")), (22, 20));
        assert_eq!(has("pfifo_fast", "ns_over_noqueue"), 2);
        assert_eq!((has("lockless", "ns_over_bypass"), has("lock", "ns_per_pair")), (10, 2));
        let published = |metric: &str| {
            let rows = report.rows.iter().filter(|row| row.metric == metric);
            rows.filter_map(|row| Some(row.source?.value)).collect::<Vec<_>>()
        };
        // Of lockless, and as root of the kernel's.
        let kernel = has("kernel", "ns_over_bypass");
        assert_eq!(published("ns_over_bypass"), [&[7.9][..], &[60.5][..kernel]].concat());
        assert_eq!(has("kernel", "ns_per_packet"), 2 * kernel);
        assert_eq!(kernel == 0, report.skipped.iter().any(|skipped| skipped.case == "kernel"));
        assert_eq!(published("ns_under_fifo"), [58.98, 51.08]);
        assert_eq!(report.skipped.last().unwrap().case, "rte_ring");
    }

    #[test]
    fn a_run_ends_in_time_or_when_told_to() {
        let hurried = measured(&LoopPlan { limit: Some(Duration::ZERO), ..BRIEF }, false);
        assert!(hurried.rows.iter().all(|row| row.samples.len() <= 1));
        let stopped = measured(&BRIEF, true);
        assert!(stopped.rows.iter().all(|row| row.case == "lock"), "{:?}", stopped.rows);
    }
}
