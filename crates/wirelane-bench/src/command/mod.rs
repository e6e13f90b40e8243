//! `wirelane bench`: measures on this machine, in the process and, as root, in a temporary lab.

mod all;
mod collect;
mod compare;
mod figures;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use wirelane::{Error, Result};
use wirelane_cli::output::{self, screen};

use self::collect::collect;
use crate::suite::ReadySuite;
use crate::suites::NamedSuite;

/// Measure what packets cost on this machine.
#[derive(Parser)]
#[command(name = "wirelane-bench", bin_name = "wirelane bench", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    bench: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    #[command(display_order = 1)] // with the suites, by name
    All(all::AllArgs),
    #[command(display_order = 1)]
    Compare(compare::CompareArgs),
    #[command(flatten)]
    Suite(NamedSuite),
}

/// The command line of the program, for its manual page.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// The main function of the program.
pub fn main() -> ExitCode {
    wirelane_cli::companion(|cli: Cli| run(&cli.bench))
}

/// Fails if the suite cannot measure, or the output cannot be written.
fn run(bench: &BenchCommand) -> Result<()> {
    match bench {
        BenchCommand::All(args) => all::run(args),
        BenchCommand::Compare(args) => compare::run(args),
        BenchCommand::Suite(NamedSuite(suite)) => measure(suite),
    }
}

/// Runs a suite and prints its report.
fn measure(suite: &ReadySuite) -> Result<()> {
    let report = collect(|run| run.alone(suite))?;
    if suite.json {
        return output::json(&report);
    }
    let mut out = io::stdout().lock();
    write!(out, "{}", figures::ReportTables { report: &report, width: screen::width_of_output() })
        .and_then(|()| out.flush())
        .map_err(|error| Error::io("standard output", "write", error))
}
