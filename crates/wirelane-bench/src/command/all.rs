//! `wirelane bench all`: every suite in one run, and a page to read it by.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use wirelane::{Error, Result};
use wirelane_cli::output;

use super::collect::collect;
use crate::effort::Effort;
use crate::page;
use crate::run::{expected, minutes};
use crate::suites::SUITES;

/// Run every suite and write DIR/report.json and DIR/index.html.
///
/// The page compares this machine's figures with the tables of the five papers, and plots every
/// figure. It is one file and needs no network. Without root, measurements that need it are
/// skipped, and the page says so. It ends within 30 minutes, unless --samples asks for more, with
/// shorter samples than the suites take alone. ^C ends the run and reports what was measured so
/// far.
#[derive(Args)]
pub(crate) struct AllArgs {
    /// Directory to write to; created if it does not exist
    #[arg(long, value_name = "DIR")]
    report: PathBuf,
    /// Finish within two minutes; the figures vary more
    #[arg(long)]
    quick: bool,
    /// Run this suite only; may be given several times
    #[arg(long = "suite", value_name = "SUITE", value_parser = SUITES.map(|suite| suite.name))]
    suites: Vec<String>,
    /// Take N samples of every figure [default: as many as each suite does]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: Option<u32>,
    /// Also print the report as one JSON object (schema wirelane.bench/1)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The folder, the report or the page cannot be written.
pub(crate) fn run(args: &AllArgs) -> Result<()> {
    // An error shows before minutes are spent on measuring.
    fs::create_dir_all(&args.report).map_err(|error| failed(&args.report, "create", error))?;
    let (quick, json, samples) = (args.quick, args.json, args.samples);
    let effort = Effort { quick, json, samples, brief: !quick };
    output::line(format_args!(
        "measuring for about {} minutes; ^C ends it with what was measured",
        minutes(expected(&args.suites, &effort, &args.report))
    ));
    let report = collect(|run| run.all(&args.suites, &effort, &args.report))?;
    write(&args.report.join("report.json"), &output::text(&report)?)?;
    let page = args.report.join("index.html");
    write(&page, &page::render(&report))?;
    output::line(format_args!(
        "{} figures, {} not measured → {}",
        report.rows.len(),
        report.skipped.len(),
        page.display()
    ));
    if args.json { output::json(&report) } else { Ok(()) }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| failed(path, "write", error))
}

fn failed(path: &Path, what: &'static str, error: std::io::Error) -> Error {
    Error::io(format!("report '{}'", path.display()), what, error)
}
