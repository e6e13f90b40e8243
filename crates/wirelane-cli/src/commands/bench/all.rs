//! `wirelane bench all`: every suite in one run, and a page to read it by.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use wirelane::{Error, Result};
use wirelane_bench::report::Report;
use wirelane_bench::{capture, filter, gso, noloss, scaling, sockets, suite};

use super::estimate::Estimate;
use super::{Step, Tell};
use crate::output;
use crate::page;

/// Run every suite and write DIR/report.json and DIR/index.html.
///
/// The page holds the tables of the five sources beside this machine's figures, and every figure as
/// a plot; it is one file that needs no network. Without root, what needs it is left out, and the
/// page says so. ^C ends the run with what was measured until then.
#[derive(Args, Clone, Debug)]
pub(crate) struct AllArgs {
    /// The folder to write to; made if it is not there
    #[arg(long, value_name = "DIR")]
    report: PathBuf,
    /// Take two minutes at most instead of many; the figures vary more
    #[arg(long)]
    quick: bool,
    /// Run this suite only; may be given several times
    #[arg(long = "suite", value_name = "SUITE", value_enum)]
    suites: Vec<Name>,
    /// Measure every figure N times instead of as often as each suite does by itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: Option<u32>,
    /// Print the report as one JSON object (schema wirelane.bench/1), too
    #[arg(long)]
    json: bool,
}

/// A suite by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    Capture,
    Sockets,
    Noloss,
    Scaling,
    Gso,
    Qdisc,
    Filter,
}

/// A suite, ready to run.
struct Suite {
    name: Name,
    /// How long it usually takes.
    usual: Duration,
    run: Run,
}

/// Runs a suite within a time, if there is one.
type Run = Box<dyn FnOnce(Option<Duration>, &mut Report, &AtomicBool, Tell<'_>) -> Result<()>>;

/// What `--quick` may take, with some seconds to spare for the rounds that take longer than those before.
const QUICK: Duration = Duration::from_secs(100);
/// When `--quick` ends, with what was measured until then: on a slow machine the first round of every suite may take
/// longer than that. What is being measured comes to its end, which takes seconds.
const LATEST: Duration = Duration::from_secs(110);
/// How many times its part of that a suite may take, before it is ended so that the others have theirs.
const PATIENCE: f64 = 1.4;

/// Runs the command.
///
/// # Errors
/// The folder cannot be written.
pub(crate) fn run(args: &AllArgs) -> Result<()> {
    // Before minutes are spent.
    fs::create_dir_all(&args.report).map_err(|error| failed(&args.report, "create", error))?;
    let report = super::collect(|report, stop, tell| {
        run_suites(args, report, stop, tell);
        Ok(())
    })?;
    write(&args.report.join("report.json"), &output::text(&report)?)?;
    let page = args.report.join("index.html");
    write(&page, &page::render(&report))?;
    output::line(format_args!(
        "wirelane: {} figures, {} not measured: see {}",
        report.rows.len(),
        report.skipped.len(),
        page.display()
    ));
    if args.json { output::json(&report) } else { Ok(()) }
}

/// Runs all suites, one after the other, until `stop` is set.
fn run_suites(
    args: &AllArgs,
    report: &mut Report,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Step<'_>),
) {
    const OVER: &str = "the time that --quick has was over before its turn came";
    const ENDED: &str = "the run was ended before its turn came";
    let end = args.quick.then(|| Instant::now() + LATEST);
    let suites = suites(args);
    let usual: Vec<_> = suites.iter().map(|suite| suite.usual).collect();
    let mut estimate = Estimate::new(&usual, args.quick.then_some(QUICK));
    for (position, suite) in suites.into_iter().enumerate() {
        let name = suite.name.as_str();
        let ended = stop.load(Ordering::Relaxed);
        if ended || end.is_some_and(|end| Instant::now() > end) {
            report.skip(name, "all", if ended { ENDED } else { OVER }.to_owned());
            continue;
        }
        let begin = Instant::now();
        estimate.begin(position, begin);
        let limit = estimate.limit();
        let mut tell_more = |round: u32, what: &str| {
            let left = estimate.left(Instant::now());
            let text = format!(
                "about {} left; suite {} of {}, {name}, round {round}: {what}",
                minutes(left),
                position + 1,
                usual.len(),
            );
            tell(Step { suite: name, round, text: &text });
        };
        let patience = limit.map(|limit| begin + limit.mul_f64(PATIENCE));
        let cut = AtomicBool::new(false);
        let outcome = thread::scope(|scope| {
            let (working, done) = mpsc::channel();
            scope.spawn(|| watch(done, stop, patience.min(end), &cut));
            let outcome = (suite.run)(limit, report, &cut, &mut tell_more);
            drop(working);
            outcome
        });
        if let Err(error) = outcome {
            // The others are worth having without it.
            report.skip(name, "all", error.to_string());
        } else if cut.load(Ordering::Relaxed) {
            let ended = stop.load(Ordering::Relaxed);
            report.skip(name, "all", if ended { ENDED } else { OVER }.to_owned());
        }
        report.environment.add_suite(name, begin.elapsed());
    }
}

/// Sets `cut` when `stop` is, or at `end`, unless the work is done before.
fn watch(done: Receiver<()>, stop: &AtomicBool, end: Option<Instant>, cut: &AtomicBool) {
    const POLL: Duration = Duration::from_millis(10);
    while done.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
        if stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end) {
            cut.store(true, Ordering::Relaxed);
            return;
        }
    }
}

/// All suites that were asked for. The longest round comes last: it may be the only one of its suite.
fn suites(args: &AllArgs) -> Vec<Suite> {
    let samples = args.samples.map(|samples| samples as usize);
    let mut sockets = if args.quick { sockets::Plan::quick() } else { sockets::Plan::full() };
    sockets.samples = samples.unwrap_or(sockets.samples);
    let mut qdisc = if args.quick { suite::Plan::QUICK } else { suite::Plan::FULL };
    qdisc.samples = samples.unwrap_or(qdisc.samples);
    let filter = qdisc;
    let mut capture = if args.quick { capture::Plan::quick() } else { capture::Plan::full() };
    capture.samples = samples.unwrap_or(capture.samples);
    // The report's folder is where the user wants large files to be.
    capture.disk = Some(args.report.clone());
    let scaling = sockets.clone();
    let mut noloss = if args.quick { noloss::Plan::quick() } else { noloss::Plan::full() };
    noloss.samples = samples.unwrap_or(noloss.samples);
    let mut gso = if args.quick { gso::Plan::quick() } else { gso::Plan::full() };
    gso.samples = samples.unwrap_or(gso.samples);
    if args.quick {
        // The source's tables, and no more.
        gso.cases = ["tcp4", "tcp6", "udp4", "udp6"].map(str::to_owned).to_vec();
        gso.offloads = ["kernel", "wirelane", "none"].map(str::to_owned).to_vec();
    }
    let suite = |name, quick, full, run| {
        let usual = Duration::from_secs(if args.quick { quick } else { full });
        Suite { name, usual, run }
    };
    let suites = vec![
        suite(
            Name::Capture,
            50,
            420,
            Box::new(move |limit, report, stop, tell| {
                super::capture_and_others(&capture, limit, report, stop, tell)
            }),
        ),
        suite(
            Name::Sockets,
            30,
            240,
            Box::new(move |limit, report, stop, tell| {
                let plan = sockets::Plan { limit: super::share(limit, 0.9), ..sockets };
                let begin = Instant::now();
                sockets::sockets(&plan, report, stop, tell)?;
                let left = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
                super::sockets_beside_others(&plan, left, report, stop, tell)
            }),
        ),
        suite(
            Name::Noloss,
            15,
            800,
            Box::new(move |limit, report, stop, tell| {
                let plan = noloss::Plan { limit, ..noloss };
                noloss::noloss(&plan, report, stop, tell)
            }),
        ),
        suite(
            Name::Scaling,
            1,
            15,
            Box::new(move |limit, report, stop, tell| {
                let plan = sockets::Plan { limit, ..scaling };
                scaling::scaling(&plan, report, stop, tell)
            }),
        ),
        suite(
            Name::Qdisc,
            25,
            150,
            Box::new(move |limit, report, stop, tell| {
                let plan = suite::Plan { limit, ..qdisc };
                suite::qdisc(&plan, report, stop, tell)
            }),
        ),
        suite(
            Name::Filter,
            2,
            10,
            Box::new(move |limit, report, stop, tell| {
                let plan = suite::Plan { limit, ..filter };
                filter::filter(&plan, report, stop, tell)
            }),
        ),
        suite(
            Name::Gso,
            30,
            200,
            Box::new(move |limit, report, stop, tell| {
                let plan = gso::Plan { limit, ..gso };
                gso::gso(&plan, report, stop, tell)
            }),
        ),
    ];
    let is_wanted = |suite: &Suite| args.suites.is_empty() || args.suites.contains(&suite.name);
    suites.into_iter().filter(is_wanted).collect()
}

impl Name {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Capture => "capture",
            Self::Sockets => "sockets",
            Self::Noloss => "noloss",
            Self::Scaling => "scaling",
            Self::Gso => "gso",
            Self::Qdisc => "qdisc",
            Self::Filter => "filter",
        }
    }
}

/// Whole minutes and seconds.
fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| failed(path, "write", error))
}

fn failed(path: &Path, what: &'static str, error: std::io::Error) -> Error {
    Error::io(format!("report '{}'", path.display()), what, error)
}
