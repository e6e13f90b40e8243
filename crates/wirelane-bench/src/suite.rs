//! What every suite of `wirelane bench` is. The list of all of them is [`crate::suites::SUITES`].

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{ArgMatches, Args, Command};
use wirelane::error::Result;

use crate::report::Report;

/// Told the round and what is measured next.
pub type Progress<'a> = &'a mut dyn FnMut(u32, &str);

/// How thoroughly to measure, and how to say it: the same for every suite.
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
}

impl Effort {
    /// As often as was asked for, or else as the suite does by itself.
    pub(crate) fn samples(&self, usual: usize) -> usize {
        self.samples.map_or(usual, |samples| samples as usize)
    }
}

/// A suite, as its arguments. Their documentation says what it measures and what it needs.
pub trait Suite: Args + 'static {
    /// Its name on the command line and in the rows.
    const NAME: &'static str;
    /// How many seconds it usually takes in a report: with `--quick`, and in full.
    const USUAL: [u64; 2];
    /// How long it may take with `--quick` if it is run alone.
    const QUICK: Duration = Duration::from_secs(50);

    /// How it is run for a report that is written to `folder`.
    fn for_report(effort: Effort, folder: &Path) -> Self;

    /// How thoroughly it measures.
    fn effort(&self) -> &Effort;

    /// Rounds: samples of every figure.
    fn samples(&self) -> usize;

    /// Measures, and adds the rows to `report`, and what was skipped with its reason. After `limit` no round
    /// begins; `stop` ends the run early, with what was measured until then.
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
    /// How long it usually takes.
    pub(crate) usual: Duration,
    /// How long it may take alone.
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
    /// With the arguments of a command.
    pub(crate) parse: fn(&ArgMatches) -> Result<Ready, clap::Error>,
    /// As part of a report.
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
