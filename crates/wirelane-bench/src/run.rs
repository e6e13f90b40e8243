//! Running suites: one alone, or all of them for a report.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::Result;

use crate::effort::Effort;
use crate::estimate::Estimate;
use crate::report::BenchReport;
use crate::statistics::control::Controller;
use crate::suite::ReadySuite;
use crate::suites::SUITES;

/// Time budget of `--quick`. It leaves some seconds for rounds that take longer than earlier ones.
const QUICK: Duration = Duration::from_secs(100);
/// `--quick` stops at this time and keeps the results so far: on a slow machine, the first rounds
/// alone may exceed the budget. The measurement in progress still finishes, which takes seconds.
const LATEST: Duration = Duration::from_secs(110);
/// The budget and the latest end of a full run, which takes less than half an hour.
const FULL: Duration = Duration::from_secs(29 * 60);
const FULL_LATEST: Duration = Duration::from_secs(29 * 60 + 30);
/// A suite is ended when it has taken this multiple of its share of the budget, so that the other
/// suites get their shares.
const PATIENCE: f64 = 1.4;

/// A run: its command line, its stop flag, and the receiver of its progress.
pub struct BenchRun<'a> {
    /// The command line.
    pub command: String,
    /// The revision of the source that the program was built from.
    pub revision: Option<String>,
    /// Ends the run early. The results so far are kept.
    pub stop: &'a AtomicBool,
    /// Called with a description of the next measurement.
    pub tell: &'a mut dyn FnMut(&str),
}

impl BenchRun<'_> {
    /// Runs one suite.
    ///
    /// # Errors
    /// The requested case cannot be measured.
    pub fn alone(self, suite: &ReadySuite) -> Result<BenchReport> {
        let rounds = suite.samples;
        self.collect(|report, stop, tell| {
            let mut progress = |round: u32, what: &str| {
                tell(suite.name, round, &format!("round {round} of {rounds}: {what}"));
            };
            (suite.run)(suite.limit, report, stop, &mut progress)
        })
    }

    /// Runs the suites with these names one after the other; all suites if `names` is empty. Large
    /// files are written to `folder`.
    ///
    /// # Errors
    /// None: a case that cannot be measured is skipped with its reason.
    pub fn all(self, names: &[String], effort: &Effort, folder: &Path) -> Result<BenchReport> {
        let (suites, budget) = (wanted(names, effort, folder), budget(effort));
        self.collect(|report, stop, tell| {
            one_after_the_other(&suites, budget, report, stop, tell);
            Ok(())
        })
    }

    /// Makes a report and lets `fill` fill it. The control is measured between its steps, when no
    /// measurement runs.
    fn collect(
        self,
        fill: impl FnOnce(&mut BenchReport, &AtomicBool, Tell<'_>) -> Result<()>,
    ) -> Result<BenchReport> {
        let mut report = BenchReport::new(self.command);
        report.environment.revision = self.revision;
        let mut controller = Controller::default();
        let mut tell = |suite: &'static str, round: u32, text: &str| {
            (self.tell)(text);
            controller.read(suite, round);
        };
        let outcome = fill(&mut report, self.stop, &mut tell);
        report.control = controller.finish();
        report.finish();
        outcome.map(|()| report)
    }
}

/// The approximate time of these suites together. The arguments are the same as for
/// [`BenchRun::all`].
pub fn expected(names: &[String], effort: &Effort, folder: &Path) -> Duration {
    let usual: Duration = wanted(names, effort, folder).iter().map(|suite| suite.usual).sum();
    match (budget(effort), effort.samples) {
        (Some(budget), _) => usual.min(budget.all),
        (None, Some(samples)) => usual * samples / Effort::ROUNDS[0] as u32,
        (None, None) => usual,
    }
}

/// The suites with these names, or all.
fn wanted(names: &[String], effort: &Effort, folder: &Path) -> Vec<ReadySuite> {
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|one| one == name);
    let suites = SUITES.iter().filter(|suite| is_wanted(suite.name));
    // No suite has a required argument.
    suites.filter_map(|suite| (suite.for_report)(effort.clone(), folder).ok()).collect()
}

/// A number of samples, without `--quick`, has no budget.
fn budget(effort: &Effort) -> Option<TimeBudget> {
    match effort {
        Effort { quick: true, .. } => {
            Some(TimeBudget { all: QUICK, latest: LATEST, name: "--quick" })
        }
        Effort { samples: Some(_), .. } => None,
        _ => Some(TimeBudget { all: FULL, latest: FULL_LATEST, name: "a full run" }),
    }
}

/// Called with the suite, the round, and a description of the next measurement.
type Tell<'a> = &'a mut dyn FnMut(&'static str, u32, &str);

/// The time of a report.
#[derive(Clone, Copy, Debug)]
struct TimeBudget {
    /// The time that the suites share.
    all: Duration,
    /// The run stops after this time and keeps its results.
    latest: Duration,
    /// The kind of run, in messages.
    name: &'static str,
}

/// Runs the suites until `stop` is set.
fn one_after_the_other(
    suites: &[ReadySuite],
    budget: Option<TimeBudget>,
    report: &mut BenchReport,
    stop: &AtomicBool,
    tell: Tell<'_>,
) {
    let over = || {
        let of = budget.map_or("the run", |budget| budget.name);
        format!("the time limit of {of} was reached first")
    };
    let ended = || "the run was ended first".to_owned();
    let end = budget.map(|budget| Instant::now() + budget.latest);
    let usual: Vec<_> = suites.iter().map(|suite| suite.usual).collect();
    let mut estimate = Estimate::new(&usual, budget.map(|budget| budget.all));
    for (position, suite) in suites.iter().enumerate() {
        let name = suite.name;
        let is_ended = stop.load(Ordering::Relaxed);
        if is_ended || end.is_some_and(|end| Instant::now() > end) {
            report.skip(name, "all", if is_ended { ended() } else { over() });
            continue;
        }
        let begin = Instant::now();
        estimate.begin(position, begin);
        let limit = estimate.limit();
        let mut progress = |round: u32, what: &str| {
            let left = estimate.left(Instant::now());
            let text = format!(
                "about {} left; suite {} of {}, {name}, round {round}: {what}",
                minutes(left),
                position + 1,
                usual.len(),
            );
            tell(name, round, &text);
        };
        let patience = limit.map(|limit| begin + limit.mul_f64(PATIENCE));
        let cut = AtomicBool::new(false);
        let outcome = thread::scope(|scope| {
            let (working, done) = mpsc::channel();
            scope.spawn(|| watch(done, stop, patience.min(end), &cut));
            let outcome = (suite.run)(limit, report, &cut, &mut progress);
            drop(working);
            outcome
        });
        if let Err(error) = outcome {
            // The other suites continue.
            report.skip(name, "all", error.to_string());
        } else if cut.load(Ordering::Relaxed) {
            let is_ended = stop.load(Ordering::Relaxed);
            report.skip(name, "all", if is_ended { ended() } else { over() });
        }
        report.environment.add_suite(name, begin.elapsed());
    }
}

/// Sets `cut` when `stop` is set, or at `end`, unless the work ends first.
fn watch(done: Receiver<()>, stop: &AtomicBool, end: Option<Instant>, cut: &AtomicBool) {
    const POLL: Duration = Duration::from_millis(10);
    while done.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
        if stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end) {
            cut.store(true, Ordering::Relaxed);
            return;
        }
    }
}

/// Whole minutes and seconds.
pub fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_takes_part_in_a_report() {
        let all = wanted(&[], &Effort::default(), Path::new("/x"));
        assert_eq!(
            all.iter().map(|suite| suite.name).collect::<Vec<_>>(),
            SUITES.map(|suite| suite.name)
        );
    }
}
