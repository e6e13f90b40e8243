//! `wirelane-query`: writes flows and packets as Parquet, and queries them with SQL. `wirelane`
//! starts it, because engine and formats would make that command large. The feature `cluster` adds
//! Ballista: queries that run on several machines.
//!
//! The program is stable. The items for Rust are an implementation detail of Wirelane.

mod cluster;
mod packets;
mod query;
mod sink;
mod stores;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use wirelane::ErrorKind;

/// Flows and packets as tables: Parquet in a directory or an object store, and SQL.
#[derive(Parser)]
#[command(name = "wirelane-query", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Executor(cluster::ExecutorArgs),
    Query(query::QueryArgs),
    Scheduler(cluster::SchedulerArgs),
    Sink(sink::SinkArgs),
}

/// Runs the program with the arguments of this process.
pub fn run() -> ExitCode {
    let mut command = Cli::command();
    // `wirelane query` executes this program, so that its usage must name `wirelane`.
    if std::env::args_os().nth(1).is_some_and(|word| word == "query") {
        command = command.bin_name("wirelane");
    }
    let cli = Cli::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit());
    let outcome = match cli.command {
        Command::Executor(args) => cluster::run_executor(&args),
        Command::Query(args) => query::run(&args),
        Command::Scheduler(args) => cluster::run_scheduler(&args),
        Command::Sink(args) => sink::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "wirelane-query: {error}");
            ExitCode::from(if error.kind() == ErrorKind::Usage { 2 } else { 1 })
        }
    }
}
