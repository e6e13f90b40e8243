//! `wirelane bench`: measures on this machine, in the process and, as root, in a lab of its own.

mod all;
mod compare;

use std::io::{self, IsTerminal, Write as _};

use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use wirelane::{Error, Result};
use wirelane_bench::report::Report;
use wirelane_bench::run::Run;
use wirelane_bench::suite::Ready;
use wirelane_bench::suites::Named;

use crate::output::{self, figures};
use crate::session::Signals;

/// Measure what packets cost on this machine.
#[derive(Subcommand)]
#[command(next_display_order = None)] // by name: the suites come from a list
pub(crate) enum Bench {
    All(all::AllArgs),
    Compare(compare::CompareArgs),
    #[command(flatten)]
    Suite(Named),
}

/// Runs the command.
///
/// # Errors
/// The suite cannot measure, or the answer cannot be written.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::All(args) => all::run(args),
        Bench::Compare(args) => compare::run(args),
        Bench::Suite(Named(suite)) => measure(suite),
    }
}

/// Runs a suite and prints what it measured.
fn measure(suite: &Ready) -> Result<()> {
    let report = collect(|run| run.alone(suite))?;
    if suite.json {
        return output::json(&report);
    }
    let mut out = io::stdout().lock();
    write!(out, "{}", figures::Tables(&report))
        .and_then(|()| out.flush())
        .map_err(|error| Error::io("standard output", "write", error))
}

/// Measures until a signal comes; what is measured next stands on a terminal.
fn collect(measure: impl FnOnce(Run<'_>) -> Result<Report>) -> Result<Report> {
    let signals = Signals::register()?;
    let bar = progress_bar();
    let mut tell = |text: &str| {
        if let Some(bar) = &bar {
            bar.set_message(text.to_owned());
            bar.tick();
        }
    };
    let report = measure(Run {
        command: command_line(),
        revision: option_env!("WIRELANE_REVISION").map(str::to_owned),
        stop: signals.flag(),
        tell: &mut tell,
    });
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    report
}

/// What the user typed, with the name of the program in place of its path.
fn command_line() -> String {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once("wirelane".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// One line that changes, on a terminal only.
fn progress_bar() -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("[{elapsed_precise}] {wide_msg}").ok()?;
    io::stderr().is_terminal().then(|| ProgressBar::new_spinner().with_style(style))
}
