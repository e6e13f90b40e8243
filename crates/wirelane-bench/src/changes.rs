//! Compares two runs of a benchmark: finds regressions and improvements, and separates them from
//! noise.
//!
//! A figure has a handful of samples in each run. Every pair of an old and a new sample gives a
//! ratio; their median is the estimate of the change, and the ratios between the ranks that the
//! Mann–Whitney test gives are its interval (Hodges and Lehmann, 1963), at 99 % because a report
//! has hundreds of figures. With five samples that is the range of all ratios, so a single slow
//! moment cannot make a regression: every new sample has to be worse than every old one, by more
//! than the threshold. Fewer samples are in order by chance too often; then the interval is at
//! least Student's, of the logarithms, and a single sample proves nothing.
//!
//! The load of the machine differs between two runs. The control ([`crate::statistics::control`]),
//! work that never changes, measures by how much. A change counts only as far as it exceeds the
//! change of the control. The figures of peers, programs that did not change, are a second witness:
//! the comparison reports their median change. Several reports per side, made in turns, are pooled.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::row::{Better, median};
use wirelane::error::{Error, Result};

/// The parts of an earlier report that a comparison needs.
#[derive(Clone, Debug, Deserialize)]
pub struct EarlierReport {
    schema: String,
    rows: Vec<RecordedRow>,
    #[serde(default)]
    control: Vec<RecordedControl>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedControl {
    suite: String,
    values: Vec<f64>,
    #[serde(default)]
    cpu: Vec<f64>,
}

#[derive(Clone, Debug, Deserialize)]
struct RecordedRow {
    suite: String,
    case: String,
    peer: Option<String>,
    params: BTreeMap<String, Value>,
    metric: String,
    values: Vec<f64>,
}

/// Reads a report of schema `wirelane.bench/1`; `name` is its name in errors.
///
/// # Errors
/// It is not JSON, of another schema, or from a version that did not write single values.
pub fn parse(name: &str, text: &str) -> Result<EarlierReport> {
    let failed = |cause: String| Error::failed(format!("report '{name}'"), cause);
    let report: EarlierReport = serde_json::from_str(text).map_err(|error| {
        failed(error.to_string()).help("give it what `wirelane bench … --json` has printed")
    })?;
    match report.schema.as_str() {
        "wirelane.bench/1" => Ok(report),
        other => Err(failed(format!("its schema is '{other}', not 'wirelane.bench/1'"))),
    }
}

/// How a figure changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeVerdict {
    /// Worse, beyond the threshold, with its whole interval.
    Regression,
    /// Better, beyond the threshold, with its whole interval.
    Improvement,
    /// The whole interval is within the threshold.
    Same,
    /// The samples scatter too much to tell.
    Unclear,
}

/// One figure in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct FigureChange {
    /// The suite, case, peer, conditions and metric.
    pub figure: String,
    /// Whether it belongs to another program.
    pub is_peer: bool,
    /// Median of the old samples.
    pub old: f64,
    /// Median of the new samples.
    pub new: f64,
    /// How much worse it is: 1.1 is ten percent more time, or that much less throughput.
    pub worse: f64,
    /// The interval of that.
    pub interval: [f64; 2],
    /// How much slower the machine may have been during the new run: the interval of the suite's
    /// control. `None` if a run has no control, or the figure does not depend on the machine's
    /// speed.
    pub machine: Option<[f64; 2]>,
    /// The verdict.
    pub verdict: ChangeVerdict,
}

/// All figures of two runs.
#[derive(Clone, Debug, Serialize)]
pub struct RunComparison {
    /// `wirelane.compare/1`
    pub schema: &'static str,
    /// Smaller changes do not count. A fraction.
    pub threshold: f64,
    /// Median change of the figures of peers, as [`FigureChange::worse`].
    pub peers: Option<f64>,
    /// Figures in both runs: first of Wirelane, then of peers, each sorted from worst to best.
    pub changes: Vec<FigureChange>,
    /// Figures that only the old run has.
    pub only_old: Vec<String>,
    /// Figures that only the new run has.
    pub only_new: Vec<String>,
    /// Figures that cannot be compared: neither more nor less of them is better, or they are
    /// differences around zero.
    pub not_compared: usize,
}

impl RunComparison {
    /// Figures of Wirelane that became worse.
    pub fn regressions(&self) -> impl Iterator<Item = &FigureChange> {
        self.changes.iter().filter(|own| !own.is_peer && own.verdict == ChangeVerdict::Regression)
    }
}

/// Compares runs; the samples of several reports of a side are pooled.
pub fn compare(old: &[EarlierReport], new: &[EarlierReport], threshold: f64) -> RunComparison {
    let controls = Controls { old, new };
    let (old, new) = (pool(old), pool(new));
    let mut comparison = RunComparison {
        schema: "wirelane.compare/1",
        threshold,
        peers: None,
        changes: Vec::new(),
        only_old: old.keys().filter(|key| !new.contains_key(*key)).cloned().collect(),
        only_new: new.keys().filter(|key| !old.contains_key(*key)).cloned().collect(),
        not_compared: 0,
    };
    for (figure, before) in &old {
        let Some(after) = new.get(figure) else { continue };
        let machine = controls.machine(&before.suite, &before.metric);
        match change(figure, before, after, threshold, machine) {
            Some(change) => comparison.changes.push(change),
            None => comparison.not_compared += 1,
        }
    }
    let peers = comparison.changes.iter().filter(|change| change.is_peer);
    comparison.peers = median(&peers.map(|change| change.worse).collect::<Vec<_>>());
    comparison
        .changes
        .sort_by(|a, b| a.is_peer.cmp(&b.is_peer).then_with(|| b.worse.total_cmp(&a.worse)));
    comparison
}

/// The controls of both sides.
struct Controls<'a> {
    old: &'a [EarlierReport],
    new: &'a [EarlierReport],
}

impl Controls<'_> {
    /// How many times slower the machine may have been while this figure was measured: an interval.
    /// `None` if one side does not tell. CPU time is compared with CPU time: waiting for a CPU is
    /// not in it.
    fn machine(&self, suite: &str, metric: &str) -> Option<[f64; 2]> {
        let is_cpu_time = metric.starts_with("cpu_ns") || metric == "cost_not_sleeping";
        let of = |control: &RecordedControl| {
            if is_cpu_time { control.cpu.clone() } else { control.values.clone() }
        };
        let values = |reports: &[EarlierReport]| -> Vec<f64> {
            let controls = reports.iter().flat_map(|report| &report.control);
            controls.filter(|control| control.suite == suite).flat_map(of).collect()
        };
        let ratios = Ratios::new(&values(self.old), &values(self.new), |old, new| new / old);
        ratios.map(|ratios| ratios.interval)
    }
}

struct PooledFigure {
    suite: String,
    is_peer: bool,
    metric: String,
    values: Vec<f64>,
}

fn pool(reports: &[EarlierReport]) -> BTreeMap<String, PooledFigure> {
    let mut figures: BTreeMap<String, PooledFigure> = BTreeMap::new();
    for row in reports.iter().flat_map(|report| &report.rows) {
        let figure = figures.entry(name(row)).or_insert_with(|| PooledFigure {
            suite: row.suite.clone(),
            is_peer: row.peer.is_some(),
            metric: row.metric.clone(),
            values: Vec::new(),
        });
        figure.values.extend(row.values.iter().filter(|value| value.is_finite()));
    }
    figures.retain(|_, figure| !figure.values.is_empty());
    figures
}

fn name(row: &RecordedRow) -> String {
    let mut name = format!("{} {}", row.suite, row.case);
    if let Some(peer) = &row.peer {
        let _ = write!(name, " ({peer})");
    }
    for (key, value) in &row.params {
        let _ = match value {
            Value::String(text) => write!(name, " {key}={text}"),
            other => write!(name, " {key}={other}"),
        };
    }
    let _ = write!(name, ": {}", row.metric);
    name
}

/// `None` if there is no better or worse.
fn change(
    name: &str,
    old: &PooledFigure,
    new: &PooledFigure,
    threshold: f64,
    machine: Option<[f64; 2]>,
) -> Option<FigureChange> {
    let scale = MetricScale::of(&old.metric)?;
    // Ratios mean nothing around zero; exact counts (locks) may be zero on both sides.
    if old.values.iter().chain(&new.values).any(|value| *value < 0.0) {
        return None;
    }
    let ratios = Ratios::new(&old.values, &new.values, |old, new| scale.worse(old, new))?;
    let machine = machine.filter(|_| scale != MetricScale::Count);
    let [relaxed, strained] = machine.unwrap_or([1.0, 1.0]);
    let [low, high] = ratios.interval;
    let verdict = if low > (1.0 + threshold) * strained.max(1.0) {
        ChangeVerdict::Regression
    } else if high < relaxed.min(1.0) / (1.0 + threshold) {
        ChangeVerdict::Improvement
    } else if low >= 1.0 / (1.0 + threshold) && high <= 1.0 + threshold {
        ChangeVerdict::Same
    } else {
        ChangeVerdict::Unclear
    };
    Some(FigureChange {
        figure: name.to_owned(),
        is_peer: old.is_peer,
        old: median(&old.values)?,
        new: median(&new.values)?,
        worse: ratios.median,
        interval: ratios.interval,
        machine,
        verdict,
    })
}

/// How values of a metric compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricScale {
    /// A time: less is better.
    Cost,
    /// More is better.
    Rate,
    /// A share of lost packets. The shares that were not lost are compared: a few lost packets
    /// among millions would otherwise be an unbounded change.
    Loss,
    /// A count that does not depend on how fast the machine is.
    Count,
    /// A count of rare events, near zero: one more per packet is twice as bad.
    Accidents,
}

impl MetricScale {
    /// `None` if the metric has no direction, or if it is an estimate of the kernel. The kernel
    /// knows the CPU time of a thread, but splits it into user and system time by samples at its
    /// ticks.
    fn of(metric: &str) -> Option<Self> {
        let is_estimate = [
            "user_ns_per_packet",
            "system_ns_per_packet",
            "cost_processing",
            "cost_in_system_calls",
        ]
        .contains(&metric);
        let better = Better::of(metric).filter(|_| !is_estimate)?;
        Some(match better {
            _ if metric.starts_with("lost_") && metric.contains("share") => Self::Loss,
            _ if metric.starts_with("locks_") => Self::Count,
            _ if metric.starts_with("cas_retries_") => Self::Accidents,
            Better::Lower => Self::Cost,
            Better::Higher => Self::Rate,
        })
    }

    /// How many times worse `new` is.
    fn worse(self, old: f64, new: f64) -> f64 {
        match self {
            _ if old == new => 1.0,
            Self::Cost | Self::Count => new / old,
            Self::Rate => old / new,
            Self::Loss => (1.0 - old).max(0.0) / (1.0 - new).max(0.0),
            Self::Accidents => (1.0 + new) / (1.0 + old),
        }
    }
}

/// All ratios of a new sample and an old one.
struct Ratios {
    median: f64,
    interval: [f64; 2],
}

impl Ratios {
    /// `None` without samples.
    fn new(old: &[f64], new: &[f64], worse: impl Fn(f64, f64) -> f64) -> Option<Self> {
        let pairs = old.iter().flat_map(|o| new.iter().map(|n| worse(*o, *n)));
        let mut ratios: Vec<f64> = pairs.collect();
        ratios.sort_by(f64::total_cmp);
        let cut = outside(old.len(), new.len());
        let mut low = *ratios.get(cut)?;
        let mut high = *ratios.get(ratios.len().checked_sub(cut + 1)?)?;
        let median = median(&ratios)?;
        if let Some(margin) = student(old, new) {
            low = low.min(median / margin);
            high = high.max(median * margin);
        }
        Some(Self { median, interval: [low, high] })
    }
}

/// How many of the sorted ratios are outside the interval, on each side: the normal approximation
/// of the Mann–Whitney statistic at 99 %.
fn outside(old: usize, new: usize) -> usize {
    const Z: f64 = 2.576;
    let (m, n) = (old as f64, new as f64);
    let rank = m * n / 2.0 - Z * (m * n * (m + n + 1.0) / 12.0).sqrt();
    // A float turns into an integer by saturation: negative ranks are 0.
    rank.floor() as usize
}

/// The factor by which a ratio may be off, at 99 %, if either side has too few samples for ranks:
/// five samples on each side are enough (252 ways to divide them in two). `None` if ranks are
/// enough.
fn student(old: &[f64], new: &[f64]) -> Option<f64> {
    /// Student's t for 1, 2, … degrees of freedom.
    const T: [f64; 8] = [63.66, 9.92, 5.84, 4.60, 4.03, 3.71, 3.50, 3.36];
    if old.len().min(new.len()) >= 5 {
        return None;
    }
    // Constant values, such as counts, have no error. Zero has no logarithm.
    let same = |values: &[f64]| values.iter().all(|value| Some(value) == values.first());
    if same(old) && same(new) && old.len().min(new.len()) > 1 {
        return None;
    }
    let Some(degrees) = (old.len() + new.len()).checked_sub(3) else {
        return Some(f64::INFINITY);
    };
    let squares = |values: &[f64]| {
        let logs: Vec<f64> = values.iter().map(|value| value.max(f64::MIN_POSITIVE).ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>()
    };
    let variance = (squares(old) + squares(new)) / (degrees + 1) as f64;
    let error = (variance * (1.0 / old.len() as f64 + 1.0 / new.len() as f64)).sqrt();
    let t = T.get(degrees).copied().unwrap_or(3.3);
    Some((t * error).exp())
}

#[cfg(test)]
mod tests;
