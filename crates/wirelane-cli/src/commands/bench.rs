//! `wirelane bench`: becomes the program that measures.

use std::ffi::OsString;

use clap::Args;
use wirelane::Result;

use crate::companion::BENCH;

/// Measure what packets cost on this machine.
///
/// The program wirelane-bench, beside this command or on the PATH, measures. `wirelane bench
/// --help` lists its suites, `wirelane bench SUITE --help` the options of one.
#[derive(Args, Clone, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct BenchArgs {
    /// A suite, all or compare, and options of the program
    #[arg(value_name = "SUITE", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the program; returns only if that fails.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    BENCH.become_it(&args.words).map(|never| match never {})
}
