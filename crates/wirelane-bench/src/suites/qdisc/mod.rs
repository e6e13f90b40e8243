//! The suite `qdisc`: its cases, its rounds and its rows.
//!
//! Every round measures every case once, so that a slow minute of the machine affects all of them.
//! The first round measures DPDK's ring; later rounds do if there is time. A difference between two
//! cases is computed within a round.

mod bench;
mod bottleneck;
pub(crate) mod distance;
mod kernel;
pub mod ring;
mod rings;
pub mod rte_ring;

use std::time::{Duration, Instant};

use clap::Args;
use wirelane::error::{Error, Result};
use wirelane::port::Spec;
use wirelane::qdisc::QdiscKind;
use wirelane_cli::output::plural;

use self::bench::{
    MAX_PRODUCERS, QdiscBench, QdiscCase, QdiscSample, SUITE, uncontended_lock, uncontended_mutex,
};
use self::bottleneck::Bottleneck;
use self::kernel::Kernel;
use self::rings::RingPair;
use crate::effort::Effort;
use crate::job::{Job, SamplingPlan};
use crate::published::{Difference, difference, lock_operation, lock_pair};
use crate::row::{FigureRow, Params, PublishedFigure, RowSubject, params};
use crate::statistics::rounds::Rounds;
use crate::suite::Suite;

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
}

impl Suite for QdiscSuite {
    const NAME: &'static str = SUITE;
    const USUAL: [u64; 2] = [25, 60];

    fn plan(&self, effort: &Effort) -> SamplingPlan {
        SamplingPlan::of_loops(effort)
    }

    fn run(&self, job: &mut Job<'_>) -> Result<()> {
        let port: Option<Spec> = self.port.as_deref().map(str::parse).transpose()?;
        qdisc(port.as_ref(), true, job)
    }
}

/// Nanoseconds that the 2014 qdisc paper gives each packet: 10 Gbit/s of minimum frames.
pub const BUDGET: f64 = 67.2;

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

/// Measures the queueing disciplines, the kernel's own, the rings, and a lock. With `has_peers` it
/// also measures other programs. The kernel's discipline sends out of the interface of `port`, or
/// into a cable.
///
/// # Errors
/// No memory for the frames or the simulated port; a discipline lost packets; `port` cannot be
/// used.
fn qdisc(port: Option<&Spec>, has_peers: bool, job: &mut Job<'_>) -> Result<()> {
    let SamplingPlan { samples, window, limit } = job.plan;
    let mut bench = QdiscBench::new()?;
    let mut cases: Vec<_> = cases().into_iter().map(|case| (case, Vec::new())).collect();
    let mut rings = RingPair::new(&job.report.machine);
    let mut locks = [Vec::new(), Vec::new()];
    let cores = job.report.machine.cores as usize;
    let mut kernel = match Kernel::new(port) {
        Err(error) if port.is_some() => return Err(error),
        kernel => job.or_skip(kernel::CASE, kernel),
    };
    let mut bottleneck = Bottleneck::default();
    let mut longest_peer = Duration::ZERO;
    let mut rounds = Rounds::new(samples, limit);
    while let Some(round) = rounds.next() {
        job.round = round;
        job.tell("one lock");
        let [spin, mutex] = &mut locks;
        spin.push(uncontended_lock(PAIRS));
        mutex.push(uncontended_mutex(PAIRS));
        if job.is_stopped() {
            break;
        }
        through_kernel(&mut kernel, port.is_some(), job)?;
        job.tell("a bottleneck");
        bottleneck.measure(round)?;
        job.tell("rings");
        rings.measure(round);
        // At least once: a ratio of one round is better than none.
        if has_peers && (round == 1 || rounds.has_time_for(longest_peer)) {
            job.tell("rte_ring");
            let started = Instant::now();
            rings.measure_peer(round, job.stop);
            longest_peer = longest_peer.max(started.elapsed());
            rounds.leave_out(started.elapsed());
        }
        for (case, samples) in &mut cases {
            if job.is_stopped() {
                break;
            }
            let producers = plural(case.producers as u64, "producer");
            job.tell(&format!("{}, {producers}", case.discipline));
            let window = window * if case.producers > cores { 2 } else { 1 };
            let sample = bench.measure(case, window)?;
            if sample.dropped > 0 {
                let cause = format!("{} dropped {} packets", case.discipline, sample.dropped);
                return Err(Error::failed("benchmark", cause));
            }
            samples.push(sample);
        }
    }
    if !has_peers {
        rings.leave_peer_out();
    }
    let [spin, mutex] = locks;
    let rows = &mut job.report.rows;
    rows.extend(lock_rows(None, spin));
    rows.extend(lock_rows(Some("std::sync::Mutex"), mutex));
    rows.extend(discipline_rows(&cases));
    rows.extend(kernel.iter().flat_map(Kernel::rows));
    rows.extend(bottleneck.rows());
    rings.finish(job.report);
    Ok(())
}

/// Measures the kernel's queueing layer once. A failure ends its measurement; with a named port, it
/// is an error.
fn through_kernel(kernel: &mut Option<Kernel>, is_named: bool, job: &mut Job<'_>) -> Result<()> {
    let Some(found) = kernel else { return Ok(()) };
    job.tell("the kernel's queueing layer");
    match found.measure(job.plan.window) {
        Err(error) if is_named => return Err(error),
        Err(error) => {
            job.skip(kernel::CASE, error);
            job.report.rows.extend(kernel.take().iter().flat_map(Kernel::rows));
        }
        Ok(()) => {}
    }
    Ok(())
}

/// All disciplines in turn, under each condition.
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
    // An application that writes its packets.
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
    let QdiscCase { producers, size, batch, build, .. } = *case;
    let own = match case.discipline {
        QdiscKind::Bulk { round } | QdiscKind::PfifoFast { round } => {
            params![round = u64::from(round)]
        }
        QdiscKind::Lockless { bypass } => params![bypass = bypass],
        QdiscKind::Noqueue { .. } | QdiscKind::Fifo => Params::default(),
    };
    let own = own.and(case.batched.then(|| ("enqueue", "batch".into())));
    own.and(params![producers = producers, size = size, batch = batch, build = build].0)
}

/// A figure of the 2014 qdisc paper. The paper has them for one CPU that sends prepared frames of
/// minimum size one at a time.
fn source(case: &QdiscCase, of: Difference) -> Option<PublishedFigure> {
    let is_comparable = case.producers == 1 && case.size == 64 && case.batch == 1 && !case.build;
    is_comparable.then(|| difference(of).source())
}

fn discipline_rows(cases: &[(QdiscCase, Vec<QdiscSample>)]) -> Vec<FigureRow> {
    let mut rows = Vec::new();
    for (case, own) in cases {
        let (peer, params) = (None, params(case));
        let subject = RowSubject { suite: SUITE, case: name(case.discipline), peer, params };
        let mut add = |metric, samples| rows.push(subject.row(metric, samples));
        let each = |figure: fn(&QdiscSample) -> f64| own.iter().map(figure).collect::<Vec<_>>();
        // The difference to another discipline in the same round, in nanoseconds.
        let over = |discipline| {
            let other = QdiscCase { discipline, batched: false, ..*case };
            let other = cases.iter().find(|(case, _)| *case == other);
            let pairs = own.iter().zip(other.into_iter().flat_map(|(_, samples)| samples));
            pairs.map(|(own, other)| own.ns_per_packet - other.ns_per_packet).collect::<Vec<_>>()
        };
        add("ns_per_packet", each(|sample| sample.ns_per_packet));
        add("packets_per_s", each(|sample| 1e9 / sample.ns_per_packet));
        add("budget_share", each(|sample| sample.ns_per_packet / BUDGET));
        add("cpu_ns_per_packet", each(|sample| sample.cpu_ns_per_packet));
        let mut add_beside = |metric, samples, of: Option<Difference>| {
            let source = of.and_then(|of| source(case, of));
            rows.push(subject.row(metric, samples).with_source(source));
        };
        let over_none = || over(QdiscKind::Noqueue { round: None });
        match case.discipline {
            QdiscKind::Noqueue { .. } => {}
            QdiscKind::Fifo => {
                add_beside("ns_over_noqueue", over_none(), Some(Difference::FifoOverNone));
            }
            QdiscKind::Bulk { .. } | QdiscKind::PfifoFast { .. } => {
                add_beside("ns_over_noqueue", over_none(), None);
            }
            QdiscKind::Lockless { bypass } => {
                let [more, less] = match bypass {
                    true => [Difference::LocklessOverNone, Difference::LocklessUnderFifo],
                    false => [Difference::RingOverNone, Difference::RingUnderFifo],
                };
                add_beside("ns_over_noqueue", over_none(), Some(more));
                let saved = over(QdiscKind::Fifo).into_iter().map(|ns| -ns).collect();
                add_beside("ns_under_fifo", saved, Some(less));
            }
        }
        if case.discipline == (QdiscKind::Lockless { bypass: false }) {
            let bypass = over(QdiscKind::Lockless { bypass: true });
            add_beside("ns_over_bypass", bypass, Some(Difference::RingOverBypass));
        }
        let mut add = |metric, samples| rows.push(subject.row(metric, samples));
        add("locks_per_packet", each(|sample| sample.locks_per_packet));
        add("cas_retries_per_packet", each(|sample| sample.cas_retries_per_packet));
        add("bypassed_share", each(|sample| sample.bypassed));
    }
    rows.retain(|row| !row.samples.is_empty());
    rows
}

/// A pair of operations, and one operation: the 2014 qdisc paper counts operations of 8 ns.
fn lock_rows(peer: Option<&'static str>, pairs: Vec<f64>) -> [FigureRow; 2] {
    let operations = pairs.iter().map(|pair| pair / 2.0).collect();
    let subject = RowSubject { suite: SUITE, case: "lock", peer, params: Params::default() };
    [
        subject.row("ns_per_pair", pairs).with_source(Some(lock_pair().source())),
        subject.row("ns_per_operation", operations).with_source(Some(lock_operation().source())),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::report::BenchReport;

    const BRIEF: SamplingPlan =
        SamplingPlan { samples: 2, window: Duration::from_millis(1), limit: None };

    fn measure(plan: SamplingPlan, stop: bool) -> BenchReport {
        let (mut report, stop) = (BenchReport::new("test".into()), AtomicBool::new(stop));
        qdisc(None, false, &mut Job::new(SUITE, plan, &mut report, &stop, &mut |_, _| {})).unwrap();
        report
    }

    #[test]
    fn every_figure_has_one_row_and_every_sample() {
        let report = measure(BRIEF, false);
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
        let hurried = measure(SamplingPlan { limit: Some(Duration::ZERO), ..BRIEF }, false);
        assert!(hurried.rows.iter().all(|row| row.samples.len() <= 1));
        let stopped = measure(BRIEF, true);
        assert!(stopped.rows.iter().all(|row| row.case == "lock"), "{:?}", stopped.rows);
    }
}
