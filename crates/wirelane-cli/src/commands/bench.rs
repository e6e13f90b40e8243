//! `wirelane bench`: measures on this machine, in the process and, as root, in a lab of its own.

mod all;
mod collect;
mod compare;

use std::io::{self, Write as _};

use clap::Subcommand;
use wirelane::{Error, Result};
use wirelane_bench::suite::Ready;
use wirelane_bench::suites::Named;

use self::collect::collect;
use crate::output::{self, figures, screen};

/// Measure what packets cost on this machine.
#[derive(Subcommand)]
pub(crate) enum Bench {
    #[command(display_order = 1)] // with the suites, by name
    All(all::AllArgs),
    #[command(display_order = 1)]
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
    write!(out, "{}", figures::Tables { report: &report, width: screen::width_of_output() })
        .and_then(|()| out.flush())
        .map_err(|error| Error::io("standard output", "write", error))
}
