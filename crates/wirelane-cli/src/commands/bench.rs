//! `wirelane bench`: measures on this machine, in the process, without privileges.

use std::io::{self, IsTerminal, Write as _};

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use wirelane::bench::report::Report;
use wirelane::bench::suite::{self, Plan};
use wirelane::{Error, Result};

use crate::output::{self, figures};
use crate::session::Signals;

/// Measure what packets cost on this machine.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Suite {
    Qdisc(QdiscArgs),
}

/// Measure queueing disciplines with 1 to 8 producers, rings between two cores, and a lock.
///
/// Producers send frames of 64 and 1500 bytes in batches through noqueue, fifo, bulk and lockless
/// to a simulated interface that counts and frees them. Locks and spoiled compare-and-swaps per
/// packet are counted by the disciplines. Beside the figures stand those of "Qdisc layer: fast
/// enough for 10G wirespeed?" (2014), and of DPDK's rte_ring where dpdk-test is installed
/// (Debian: dpdk-dev). All CPUs are in use meanwhile: leave the machine alone.
#[derive(Args, Clone, Debug)]
pub(crate) struct QdiscArgs {
    /// Take less than a minute instead of several; the figures vary more
    #[arg(long)]
    quick: bool,
    /// Print one JSON object (schema wirelane.bench/1) instead of tables
    #[arg(long)]
    json: bool,
    /// Measure every figure N times: 7 by default, 5 with --quick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: Option<u32>,
}

/// Runs the command.
///
/// # Errors
/// The suite cannot measure, or the answer cannot be written.
pub(crate) fn run(suite: &Suite) -> Result<()> {
    let Suite::Qdisc(args) = suite;
    let mut plan = if args.quick { Plan::QUICK } else { Plan::FULL };
    plan.samples = args.samples.map_or(plan.samples, |samples| samples as usize);
    let signals = Signals::register()?;
    let mut report = Report::new(command_line());
    let bar = progress_bar();
    let mut progress = |round: u32, what: &str| {
        if let Some(bar) = &bar {
            bar.set_message(format!("round {round} of {}: {what}", plan.samples));
            bar.tick();
        }
    };
    let outcome = suite::qdisc(&plan, &mut report, signals.flag(), &mut progress);
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    outcome?;
    if args.json {
        return output::json(&report);
    }
    let mut out = io::stdout().lock();
    write!(out, "{}", figures::Tables(&report))
        .and_then(|()| out.flush())
        .map_err(|error| Error::io("standard output", "write", error))
}

/// What the user typed, with the name of the program in place of its path.
fn command_line() -> String {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once("wirelane".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// One line that changes, on a terminal only.
fn progress_bar() -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("{wide_msg}").ok()?;
    io::stderr().is_terminal().then(|| ProgressBar::new_spinner().with_style(style))
}
