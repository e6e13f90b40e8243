//! The parts that all suites share: a plan, rounds that measure every case once, rows made of
//! samples, and reasons for missing cases.
//!
//! A difference is taken within a round, and a figure is the median of the rounds.

use std::cell::OnceCell;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane_cli::companion::COMMAND;
use wirelane_lab::Site;
use wirelane_os::clock;

use crate::effort::Effort;
use crate::peers::process::{ProgramOutput, RunningProgram, line};
use crate::peers::{find, missing};
use crate::report::BenchReport;
use crate::row::{FigureRow, Params, PublishedFigure, RowSubject, unit};
use crate::statistics::rounds::Rounds;

/// Called with the number of the round and the title of the next case.
pub type Progress<'a> = &'a mut dyn FnMut(u32, &str);

/// The usual number of failures in a row after which a case is no longer measured.
const MOST_FAILURES: u32 = 2;

/// The number and length of samples, and the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplingPlan {
    /// Rounds; each is one sample of every figure.
    pub samples: usize,
    /// The approximate length of a sample.
    pub window: Duration,
    /// A round other than the first begins only if it can end before this limit.
    pub limit: Option<Duration>,
}

impl SamplingPlan {
    /// The usual number of samples; `windows` are the milliseconds of a sample in a full run, in a
    /// full report, and with `--quick`.
    pub(crate) fn of(effort: &Effort, windows: [u64; 3]) -> Self {
        let window = Duration::from_millis(effort.choose(windows));
        Self { samples: effort.rounds(), window, limit: None }
    }

    /// A plan for loops inside this process, which have time for more samples.
    pub(crate) fn of_loops(effort: &Effort) -> Self {
        let plan = Self::of(effort, [200, 50, 30]);
        Self { samples: effort.samples(effort.choose([7, 5, 5])), ..plan }
    }
}

/// A running suite.
pub struct Job<'a> {
    /// The suite.
    pub suite: &'static str,
    /// The options of the user.
    pub effort: Effort,
    /// The plan of the suite.
    pub plan: SamplingPlan,
    /// The current round, from 1.
    pub(crate) round: u32,
    /// The receiver of rows and reasons.
    pub report: &'a mut BenchReport,
    /// Ends the run early and keeps the samples so far.
    pub stop: &'a AtomicBool,
    progress: Progress<'a>,
    own: OnceCell<PathBuf>,
}

impl<'a> Job<'a> {
    /// A job of a suite.
    pub fn new(
        suite: &'static str,
        plan: SamplingPlan,
        report: &'a mut BenchReport,
        stop: &'a AtomicBool,
        progress: Progress<'a>,
    ) -> Self {
        let (effort, own) = (Effort::default(), OnceCell::new());
        Self { suite, effort, plan, round: 1, report, stop, progress, own }
    }

    /// Uses this program as Wirelane's command.
    #[must_use]
    pub fn of_command(self, own: &Path) -> Self {
        Self { own: OnceCell::from(own.to_owned()), ..self }
    }

    /// The path of Wirelane's command.
    ///
    /// # Errors
    /// It is neither in the directory of this program nor on the `PATH`.
    pub(crate) fn own(&self) -> Result<&Path> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        let found = COMMAND.find()?;
        Ok(self.own.get_or_init(|| found))
    }

    /// A part of the job, with a separate plan.
    pub(crate) fn with(&mut self, plan: SamplingPlan) -> Job<'_> {
        Job {
            suite: self.suite,
            effort: self.effort.clone(),
            plan,
            round: self.round,
            report: &mut *self.report,
            stop: self.stop,
            progress: &mut *self.progress,
            own: self.own.clone(),
        }
    }

    /// A part of the job, with a separate time limit.
    pub(crate) fn within(&mut self, limit: Option<Duration>) -> Job<'_> {
        self.with(SamplingPlan { limit, ..self.plan })
    }

    /// The rest of the time limit, which started at `begin`.
    pub(crate) fn left(&self, begin: Instant) -> Option<Duration> {
        self.plan.limit.map(|limit| limit.saturating_sub(begin.elapsed()))
    }

    /// Whether the run was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reports the next measurement as progress.
    pub(crate) fn tell(&mut self, what: &str) {
        (self.progress)(self.round, what);
    }

    /// Notes that a case was not measured.
    pub(crate) fn skip(&mut self, case: &'static str, reason: impl Display) {
        self.report.skip(self.suite, case, reason.to_string());
    }

    /// The value, or `None` after noting the error as the reason why the case was not measured.
    pub(crate) fn or_skip<T>(&mut self, case: &'static str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.skip(case, error)).ok()
    }

    /// The path of another program. A missing program is noted.
    pub(crate) fn find(&mut self, program: &'static str) -> Option<PathBuf> {
        let found = find(program);
        if found.is_none() {
            self.skip(program, missing(program));
        }
        found
    }

    /// The subject of Wirelane's rows.
    pub(crate) fn subject(&self, case: &'static str, params: Params) -> RowSubject {
        RowSubject { suite: self.suite, case, peer: None, params }
    }

    /// Notes that a command took part.
    pub(crate) fn note(&mut self, command: &Command) {
        self.report.environment.add_command(line(command));
    }

    /// Runs a program to its end on these CPUs, at `site` if there is one. Only one program may run
    /// at a time, because the kernel adds up the CPU time of all children that have ended.
    ///
    /// # Errors
    /// It fails, or does not end in time.
    pub(crate) fn run(
        &mut self,
        command: &mut Command,
        cpus: &[u32],
        site: Option<&Site>,
        limit: Duration,
    ) -> Result<TimedOutput> {
        self.note(command);
        let (before, begin) = (clock::children_cpu(), Instant::now());
        let output = RunningProgram::start(command, cpus, site)?.wait(limit)?;
        let (elapsed, cpu) = (begin.elapsed(), clock::children_cpu().since(before).total());
        Ok(TimedOutput { output, elapsed, cpu })
    }

    /// Measures all cases in rounds, and adds their rows. The failure of a case is noted with its
    /// reason, and the case is usually measured again in the next round. Each round starts with the
    /// next case, so that no case is always first. The first round, perhaps the only one, keeps the
    /// order.
    ///
    /// # Errors
    /// A required case failed.
    pub(crate) fn take(&mut self, mut cases: Vec<Case<'_>>) -> Result<()> {
        let outcome = self.rounds(&mut cases);
        self.report.rows.extend(cases.iter().flat_map(|case| case.rows(self.suite)));
        outcome
    }

    fn rounds(&mut self, cases: &mut [Case<'_>]) -> Result<()> {
        for round in Rounds::new(self.plan.samples, self.plan.limit) {
            self.round = round;
            let first = (round as usize - 1) % cases.len().max(1);
            let (before, after) = cases.split_at_mut(first);
            for case in after.iter_mut().chain(before) {
                if self.is_stopped() {
                    return Ok(());
                }
                if case.failures == case.most_failures {
                    continue;
                }
                self.tell(&case.title);
                match (case.measure)(self) {
                    Ok(sample) => {
                        case.failures = 0;
                        case.samples.push(sample);
                    }
                    // The end of the run is no failure of the case.
                    Err(_) if self.is_stopped() => return Ok(()),
                    Err(error) if case.is_required => return Err(error),
                    Err(error) => {
                        case.failures += 1;
                        self.skip(case.skipped_as, error);
                    }
                }
            }
        }
        Ok(())
    }
}

/// The report of `work`, without progress messages.
///
/// # Errors
/// Those of `work`.
pub fn measured(
    suite: &'static str,
    plan: SamplingPlan,
    work: impl FnOnce(Job<'_>) -> Result<()>,
) -> Result<BenchReport> {
    let (mut report, stop) = (BenchReport::new("test".into()), AtomicBool::new(false));
    work(Job::new(suite, plan, &mut report, &stop, &mut |_, _| {}))?;
    report.finish();
    Ok(report)
}

/// The output of a program that has ended, and its times.
#[derive(Debug)]
pub(crate) struct TimedOutput {
    pub(crate) output: ProgramOutput,
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
}

/// One value of a sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleFigure {
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
    unit: &'static str,
    case: Option<&'static str>,
    peer: Option<&'static str>,
    condition: Option<(&'static str, u64)>,
    source: Option<PublishedFigure>,
}

impl SampleFigure {
    pub(crate) fn new(metric: &'static str, value: f64) -> Self {
        Self {
            metric,
            value,
            unit: unit(metric),
            case: None,
            peer: None,
            condition: None,
            source: None,
        }
    }

    /// The figure belongs to another program than the case.
    pub(crate) fn of(self, peer: &'static str) -> Self {
        Self { peer: Some(peer), ..self }
    }

    /// The figure belongs to another case, which is measured at the same time.
    pub(crate) fn in_case(self, case: &'static str) -> Self {
        Self { case: Some(case), ..self }
    }

    /// Adds a condition to the conditions of the case.
    pub(crate) fn under(self, name: &'static str, number: u64) -> Self {
        Self { condition: Some((name, number)), ..self }
    }

    pub(crate) fn with_source(self, source: Option<PublishedFigure>) -> Self {
        Self { source, ..self }
    }

    /// The unit differs from the usual unit of the metric.
    pub(crate) fn in_unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }
}

impl From<(&'static str, f64)> for SampleFigure {
    fn from((metric, value): (&'static str, f64)) -> Self {
        Self::new(metric, value)
    }
}

/// One measurement of a case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) figures: Vec<SampleFigure>,
    /// The conditions, if only the measurement shows them.
    pub(crate) params: Option<Params>,
}

impl<F: Into<SampleFigure>, I: IntoIterator<Item = F>> From<I> for Sample {
    fn from(figures: I) -> Self {
        Self { figures: figures.into_iter().map(Into::into).collect(), params: None }
    }
}

type Measure<'a> = dyn FnMut(&mut Job<'_>) -> Result<Sample> + 'a;

/// A measurement of every round: a program, or several together, under one condition.
pub(crate) struct Case<'a> {
    name: &'static str,
    peer: Option<&'static str>,
    params: Params,
    /// The name under which a failure is listed.
    skipped_as: &'static str,
    /// The title, for progress messages.
    title: String,
    is_required: bool,
    measure: Box<Measure<'a>>,
    samples: Vec<Sample>,
    failures: u32,
    most_failures: u32,
}

impl<'a> Case<'a> {
    /// `measure` takes a sample; it may fail when the run is stopped.
    pub(crate) fn new(
        name: &'static str,
        params: Params,
        title: impl Into<String>,
        measure: impl FnMut(&mut Job<'_>) -> Result<Sample> + 'a,
    ) -> Self {
        Self {
            name,
            peer: None,
            params,
            skipped_as: name,
            title: title.into(),
            is_required: false,
            measure: Box::new(measure),
            samples: Vec::new(),
            failures: 0,
            most_failures: MOST_FAILURES,
        }
    }

    /// The case belongs to another program, if there is a name.
    pub(crate) fn of(self, peer: Option<&'static str>) -> Self {
        Self { peer, skipped_as: peer.unwrap_or(self.name), ..self }
    }

    /// Lists a failure under this name.
    pub(crate) fn skipped_as(self, skipped_as: &'static str) -> Self {
        Self { skipped_as, ..self }
    }

    /// The case is no longer measured after its first failure.
    pub(crate) fn once(self) -> Self {
        Self { most_failures: 1, ..self }
    }

    /// A failure of the case ends the run with an error if `is_required`.
    pub(crate) fn required(self, is_required: bool) -> Self {
        Self { is_required, ..self }
    }

    /// A row for each metric, in order of first appearance.
    fn rows(&self, suite: &'static str) -> Vec<FigureRow> {
        let params = self.samples.iter().rev().find_map(|sample| sample.params.as_ref());
        let params = params.unwrap_or(&self.params);
        let mut rows: Vec<FigureRow> = Vec::new();
        for figure in self.samples.iter().flat_map(|sample| &sample.figures) {
            let SampleFigure { metric, value, unit, source, .. } = *figure;
            let (case, peer) = (figure.case.unwrap_or(self.name), figure.peer.or(self.peer));
            let more = figure.condition.map(|(name, number)| (name, number.into()));
            let params = params.clone().and(more);
            let is_it = |row: &&mut FigureRow| {
                (row.case, row.metric, row.peer, &row.params) == (case, metric, peer, &params)
            };
            match rows.iter_mut().find(is_it) {
                Some(row) => row.samples.push(value),
                None => {
                    let samples = vec![value];
                    rows.push(FigureRow {
                        suite,
                        case,
                        peer,
                        params,
                        metric,
                        unit,
                        samples,
                        source,
                    });
                }
            }
        }
        rows
    }
}

pub(crate) fn go_on(stop: &AtomicBool) -> Result<()> {
    let is_stopped = stop.load(Ordering::Relaxed);
    if is_stopped { Err(Error::failed("the run", "was ended")) } else { Ok(()) }
}

/// Sleeps for `time`, or until the run is stopped.
pub(crate) fn pause(time: Duration, stop: &AtomicBool) -> Result<()> {
    wait(time, stop, || false)
}

/// Sleeps until `is_over`, at most for `time`.
pub(crate) fn wait(time: Duration, stop: &AtomicBool, is_over: impl Fn() -> bool) -> Result<()> {
    let until = Instant::now() + time;
    loop {
        go_on(stop)?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || is_over() {
            return Ok(());
        }
        thread::sleep(left.min(Duration::from_millis(10)));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::row::params;

    #[test]
    fn each_round_has_everyone_and_another_one_first() {
        let plan = SamplingPlan { samples: 3, window: Duration::ZERO, limit: None };
        let order = RefCell::new(String::new());
        let cases = || {
            let case = |name: &'static str| {
                Case::new(name, params![size = 64_u64], name, move |job: &mut Job<'_>| match name {
                    "b" => Err(Error::failed("b", "cannot")),
                    _ => Ok([("packets_per_s", f64::from(job.round))].into()),
                })
            };
            ["a", "b", "c"].map(case).into_iter().collect::<Vec<_>>()
        };
        let mut report = BenchReport::new("test".into());
        let mut run = |stop, cases| {
            let stop = AtomicBool::new(stop);
            let mut tell = |_: u32, title: &str| order.borrow_mut().push_str(title);
            Job::new("s", plan, &mut report, &stop, &mut tell).take(cases).unwrap();
        };
        run(false, cases());
        run(true, cases());
        run(false, Vec::new());
        // One that fails is tried once more.
        assert_eq!(order.take(), "abcbcaca");
        let rows: Vec<_> = report.rows.iter().map(|row| (row.case, row.samples.len())).collect();
        assert_eq!(rows, [("a", 3), ("c", 3)]);
        // Once, however often it failed.
        assert_eq!(report.skipped.len(), 1);
        assert_eq!(report.skipped[0].case, "b");
    }
}
