//! The `wirelane` command: parse, dispatch, and say on one line what went wrong.

mod args;
mod commands;
mod control;
mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use wirelane::{Error, ErrorKind};

/// Multi-queue packet capture and I/O: every queue of an interface in parallel.
#[derive(Parser)]
#[command(version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Ports: [backend:]NAME[@QUEUES][?key=value&…]
  sim:4?rate=1Mpps            a simulated interface with 4 queues; needs no privilege
  packet:eth0@0-3             AF_PACKET on queues 0 to 3; eth0 alone takes the best backend
  file:trace.pcapng.zst       a capture file

Exit status: 0 done, 1 failed, 2 wrong usage.";

#[derive(Subcommand)]
enum Command {
    Capture(Box<commands::capture::CaptureArgs>),
    Mask(commands::mask::MaskArgs),
    Merge(commands::merge::MergeArgs),
    Queues(commands::queues::QueuesArgs),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Capture(args) => commands::capture::run(&args),
        Command::Mask(args) => commands::mask::run(&args),
        Command::Merge(args) => commands::merge::run(&args),
        Command::Queues(args) => commands::queues::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

/// Prints the error; a reader that went away is no failure.
fn report(error: &Error) -> ExitCode {
    if error.kind() == ErrorKind::BrokenPipe {
        return ExitCode::SUCCESS;
    }
    output::line(format_args!("wirelane: {error}"));
    ExitCode::from(if error.kind() == ErrorKind::Usage { 2 } else { 1 })
}
