//! `wirelane bench all`: every suite in one run, and a page to read it by.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use wirelane::bench::report::{Report, Skipped};
use wirelane::bench::{capture, filter, gso, scaling, sockets, suite};
use wirelane::{Error, Result};

use super::Tell;
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
    /// Take about two minutes instead of many; the figures vary more
    #[arg(long)]
    quick: bool,
    /// Measure every figure N times instead of as often as each suite does by itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: Option<u32>,
    /// Print the report as one JSON object (schema wirelane.bench/1), too
    #[arg(long)]
    json: bool,
}

/// A suite, ready to run.
type Suite = Box<dyn FnOnce(&mut Report, &AtomicBool, Tell<'_>) -> Result<()>>;

/// Runs the command.
///
/// # Errors
/// The folder cannot be written.
pub(crate) fn run(args: &AllArgs) -> Result<()> {
    // Before minutes are spent.
    fs::create_dir_all(&args.report).map_err(|error| failed(&args.report, "create", error))?;
    let report = super::collect(|report, stop, progress| {
        let suites = suites(args);
        let count = suites.len();
        for (position, (name, suite)) in suites.into_iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                let reason = "the run was ended before its turn came".to_owned();
                report.skipped.push(Skipped { suite: name, case: "all", reason });
                continue;
            }
            let mut tell = |round: u32, what: &str| {
                progress(&format!(
                    "suite {} of {count}, {name}, round {round}: {what}",
                    position + 1
                ));
            };
            if let Err(error) = suite(report, stop, &mut tell) {
                // The others are worth having without it.
                let reason = error.to_string();
                report.skipped.push(Skipped { suite: name, case: "all", reason });
            }
        }
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

fn suites(args: &AllArgs) -> Vec<(&'static str, Suite)> {
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
    let mut gso = if args.quick { gso::Plan::quick() } else { gso::Plan::full() };
    gso.samples = samples.unwrap_or(gso.samples);
    vec![
        (
            "capture",
            Box::new(move |report, stop, tell| capture::capture(&capture, report, stop, tell)),
        ),
        (
            "sockets",
            Box::new(move |report, stop, tell| sockets::sockets(&sockets, report, stop, tell)),
        ),
        (
            "scaling",
            Box::new(move |report, stop, tell| scaling::scaling(&scaling, report, stop, tell)),
        ),
        ("gso", Box::new(move |report, stop, tell| gso::gso(&gso, report, stop, tell))),
        ("qdisc", Box::new(move |report, stop, tell| suite::qdisc(&qdisc, report, stop, tell))),
        ("filter", Box::new(move |report, stop, tell| filter::filter(&filter, report, stop, tell))),
    ]
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| failed(path, "write", error))
}

fn failed(path: &Path, what: &'static str, error: std::io::Error) -> Error {
    Error::io(format!("report '{}'", path.display()), what, error)
}
