//! The trait of every suite of `wirelane bench`. [`crate::suites::SUITES`] lists them.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{ArgMatches, Args, Command};
use wirelane::error::Result;

use crate::report::Report;

/// Called with the number of the round and the name of what is measured next.
pub type Progress<'a> = &'a mut dyn FnMut(u32, &str);

/// Options of every suite: how thoroughly to measure, and how to print.
#[derive(Args, Clone, Debug, Default)]
pub struct Effort {
    /// Finish within a minute; the figures vary more
    #[arg(long)]
    pub quick: bool,
    /// Print one JSON object (schema wirelane.bench/1) instead of tables
    #[arg(long)]
    pub json: bool,
    /// Take N samples of every figure [default: 5 or 7; with --quick 3 or 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub samples: Option<u32>,
    /// One of many suites of a full report: samples are shorter, so that there is time for enough
    /// of them.
    #[arg(skip)]
    pub brief: bool,
}

impl Effort {
    /// Samples of a figure, in full and with `--quick`, where a suite has no number of its own.
    pub const ROUNDS: [usize; 2] = [5, 3];

    /// How long a sample takes that takes so long in a full run: a quarter if the suite is one of
    /// many.
    pub(crate) fn window(&self, full: Duration) -> Duration {
        if self.brief { full / 4 } else { full }
    }

    /// The number of samples asked for, or else the usual one.
    pub(crate) fn rounds(&self) -> usize {
        self.samples(Self::ROUNDS[usize::from(self.quick)])
    }

    /// The number of samples asked for, or else the suite's own.
    pub(crate) fn samples(&self, usual: usize) -> usize {
        self.samples.map_or(usual, |samples| samples as usize)
    }
}

/// A suite, represented by its arguments. Their documentation is its help.
pub trait Suite: Args + 'static {
    /// Its name on the command line and in the rows.
    const NAME: &'static str;
    /// Usual duration within a report, in seconds, on a machine that does nothing else: with
    /// `--quick`, and in full.
    const USUAL: [u64; 2];
    /// Time limit with `--quick` when it runs alone.
    const QUICK: Duration = Duration::from_secs(50);

    /// The suite as part of a report that is written to `folder`.
    fn for_report(effort: Effort, folder: &Path) -> Self;

    /// Its options that all suites share.
    fn effort(&self) -> &Effort;

    /// Rounds, which is samples of every figure.
    fn samples(&self) -> usize {
        self.effort().rounds()
    }

    /// Measures, and adds to `report` the rows, and what it skipped with the reason. No round
    /// starts after `limit`. `stop` ends the run early and keeps what was measured.
    ///
    /// # Errors
    /// What was asked for cannot be measured.
    fn run(
        &self,
        limit: Option<Duration>,
        report: &mut Report,
        stop: &AtomicBool,
        progress: Progress<'_>,
    ) -> Result<()>;
}

/// A suite with its arguments, ready to run.
pub struct Ready {
    /// Its name.
    pub name: &'static str,
    /// Whether the report is to be printed as JSON.
    pub json: bool,
    /// Samples of every figure.
    pub samples: usize,
    /// Its usual duration.
    pub(crate) usual: Duration,
    /// Its time limit when it runs alone.
    pub(crate) limit: Option<Duration>,
    pub(crate) run: Box<Run>,
}

type Run = dyn Fn(Option<Duration>, &mut Report, &AtomicBool, Progress<'_>) -> Result<()>;

impl Ready {
    fn of<S: Suite>(suite: S) -> Self {
        let effort = suite.effort();
        Self {
            name: S::NAME,
            json: effort.json,
            samples: suite.samples(),
            usual: Duration::from_secs(S::USUAL[usize::from(!effort.quick)]),
            limit: effort.quick.then_some(S::QUICK),
            run: Box::new(move |limit, report, stop, progress| {
                suite.run(limit, report, stop, progress)
            }),
        }
    }
}

/// A suite in the list of all.
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// Adds its arguments and its help to a command.
    pub(crate) arguments: fn(Command) -> Command,
    /// Makes it from the arguments of a command.
    pub(crate) parse: fn(&ArgMatches) -> Result<Ready, clap::Error>,
    /// Makes it as part of a report.
    pub(crate) for_report: fn(Effort, &Path) -> Ready,
}

impl Listed {
    pub(crate) const fn of<S: Suite>() -> Self {
        Self {
            name: S::NAME,
            arguments: S::augment_args,
            parse: |matches| S::from_arg_matches(matches).map(Ready::of),
            for_report: |effort, folder| Ready::of(S::for_report(effort, folder)),
        }
    }
}
