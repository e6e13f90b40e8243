//! The trait of every suite of `wirelane bench`. [`crate::suites::SUITES`] lists them.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, FromArgMatches as _, ValueEnum};
use wirelane::error::Result;

use crate::effort::Effort;
use crate::job::{Job, Progress, SamplingPlan};
use crate::report::BenchReport;

/// A suite, represented by its arguments. Every suite also has the arguments of [`Effort`]. The
/// documentation of both is the help.
pub trait Suite: Args + 'static {
    /// Its name on the command line and in the rows.
    const NAME: &'static str;
    /// Usual duration within a report on an idle machine, in seconds: with `--quick`, and in full.
    const USUAL: [u64; 2];
    /// Time limit with `--quick` when it runs alone.
    const QUICK: Duration = Duration::from_secs(50);

    /// Adapts the arguments for a report. Large files are written to `folder`.
    fn in_report(&mut self, _effort: &Effort, _folder: &Path) {}

    /// How thoroughly to measure.
    fn plan(&self, effort: &Effort) -> SamplingPlan;

    /// Measures, and adds rows to the report, and reasons for missing cases.
    ///
    /// # Errors
    /// The requested case cannot be measured.
    fn run(&self, job: &mut Job<'_>) -> Result<()>;
}

/// A suite with its arguments, ready to run.
pub struct ReadySuite {
    /// Its name.
    pub name: &'static str,
    /// Whether to print the report as JSON.
    pub json: bool,
    /// Samples of every figure.
    pub samples: usize,
    /// Its usual duration.
    pub(crate) usual: Duration,
    /// Its time limit when it runs alone.
    pub(crate) limit: Option<Duration>,
    pub(crate) run: Box<Run>,
}

type Run = dyn Fn(Option<Duration>, &mut BenchReport, &AtomicBool, Progress<'_>) -> Result<()>;

impl ReadySuite {
    fn of<S: Suite>(suite: S, effort: Effort) -> Self {
        let plan = suite.plan(&effort);
        Self {
            name: S::NAME,
            json: effort.json,
            samples: plan.samples,
            usual: Duration::from_secs(S::USUAL[usize::from(!effort.quick)]),
            limit: effort.quick.then_some(S::QUICK),
            run: Box::new(move |limit, report, stop, progress| {
                let mut job =
                    Job::new(S::NAME, SamplingPlan { limit, ..plan }, report, stop, progress);
                job.effort = effort.clone();
                suite.run(&mut job)
            }),
        }
    }
}

/// A suite in the list of all.
pub struct ListedSuite {
    /// Its name.
    pub name: &'static str,
    /// Adds its arguments and its help to a command.
    pub(crate) arguments: fn(Command) -> Command,
    /// Makes it from the arguments of a command.
    pub(crate) parse: fn(&ArgMatches) -> Result<ReadySuite, clap::Error>,
    /// Makes it as part of a report.
    pub(crate) for_report: fn(Effort, &Path) -> Result<ReadySuite, clap::Error>,
}

impl ListedSuite {
    pub(crate) const fn of<S: Suite>() -> Self {
        Self {
            name: S::NAME,
            arguments: |command| {
                let command = S::augment_args(command);
                // `augment_args` replaces the help text: the suite's help text is restored.
                let [about, long] =
                    [command.get_about(), command.get_long_about()].map(Option::<&_>::cloned);
                Effort::augment_args(command)
                    .about(Resettable::from(about))
                    .long_about(Resettable::from(long))
            },
            parse: |matches| {
                let effort = Effort::from_arg_matches(matches)?;
                S::from_arg_matches(matches).map(|suite| ReadySuite::of(suite, effort))
            },
            for_report: |effort, folder| {
                let none =
                    S::augment_args(Command::new(S::NAME)).try_get_matches_from([S::NAME])?;
                let mut suite = S::from_arg_matches(&none)?;
                suite.in_report(&effort, folder);
                Ok(ReadySuite::of(suite, effort))
            },
        }
    }
}

/// A case as the object of an error.
pub(crate) fn object_of(case: &impl ValueEnum) -> String {
    let value = case.to_possible_value();
    format!("case '{}'", value.as_ref().map_or("", |value| value.get_name()))
}
