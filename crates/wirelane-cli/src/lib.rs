//! The `wirelane` command: parses the arguments, runs a subcommand, and prints its error.
//!
//! An implementation detail of Wirelane: its items are not a stable API, and may change in any
//! release. The public items serve the program `wirelane-bench`.

mod access;
pub mod args;
mod background;
mod commands;
pub mod companion;
mod config;
mod control;
mod habits;
mod live;
mod netns;
pub mod output;
mod overwrite;
pub mod page;
mod print;
mod privilege;
mod provenance;
mod reachability;
mod remedies;
pub mod signals;
mod sources;
mod ssh;
mod steering;
mod store_check;
mod stores;
mod text_file;
mod time_span;
mod usage;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use wirelane::internal::process;
use wirelane::{Error, ErrorKind};

/// Capture, forward and generate packets on every queue of a network interface in parallel.
#[derive(Parser)]
#[command(name = "wirelane", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Ports: [backend:]NAME[@QUEUES][?key=value&…]
  sim:4?rate=1Mpps            a simulated interface with 4 queues; needs no privilege
  packet:eth0@0-3             copies of the packets of queues 0 to 3 (AF_PACKET)
  eth0                        packet:eth0, all queues
  file:trace.pcapng.zst       a capture file
`wirelane ports` lists all kinds of ports; `wirelane ports xdp` the options of one.

Exit status: 0 done, 1 failed, 2 wrong usage.";

#[derive(Subcommand)]
#[command(defer = true)]
enum Command {
    Bench(commands::bench::BenchArgs),
    Capture(Box<commands::capture::CaptureArgs>),
    Convert(Box<commands::convert::ConvertArgs>),
    Count(Box<commands::count::CountArgs>),
    Exec(commands::exec::ExecArgs),
    Extract(Box<commands::extract::ExtractArgs>),
    Filter(commands::filter::FilterArgs),
    Flows(Box<commands::flows::FlowsArgs>),
    Forward(Box<commands::forward::ForwardArgs>),
    #[command(subcommand)]
    Lab(commands::lab::LabAction),
    Mask(commands::mask::MaskArgs),
    Merge(commands::merge::MergeArgs),
    Ndr(Box<commands::ndr::NdrArgs>),
    Offload(commands::offload::OffloadArgs),
    Pin(commands::pin::PinArgs),
    Ports(commands::ports::PortsArgs),
    Query(commands::query::QueryArgs),
    Queues(commands::queues::QueuesArgs),
    Record(Box<commands::record::RecordArgs>),
    Send(Box<commands::send::SendArgs>),
    Stats(commands::stats::StatsArgs),
    Trigger(commands::trigger::TriggerArgs),
    Verify(commands::verify::VerifyArgs),
}

/// Runs the whole command. The process ends after it.
pub fn main() -> ExitCode {
    prepare();
    let words: Vec<_> = std::env::args_os().collect();
    let expanded = match config::expand(&words, long_options) {
        Ok(expanded) => expanded,
        Err(error) => return report(&error),
    };
    let cli = match parse(&words, expanded) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, instead(&error)),
    };
    let outcome = match cli.command {
        Command::Bench(bench) => commands::bench::run(&bench),
        Command::Capture(args) => commands::capture::run(&args),
        Command::Convert(args) => commands::convert::run(&args),
        Command::Count(args) => commands::count::run(&args),
        Command::Exec(args) => {
            let (error, status) = commands::exec::run(&args);
            report(&error);
            return ExitCode::from(status);
        }
        Command::Extract(args) => commands::extract::run(&args),
        Command::Filter(args) => commands::filter::run(&args),
        Command::Flows(args) => commands::flows::run(&args),
        Command::Forward(args) => commands::forward::run(&args),
        Command::Lab(action) => match commands::lab::run(action) {
            Err(commands::lab::CommandFailure { error, status: Some(status) }) => {
                report(&error);
                return ExitCode::from(status);
            }
            outcome => outcome.map_err(|failure| failure.error),
        },
        Command::Mask(args) => commands::mask::run(&args),
        Command::Merge(args) => commands::merge::run(&args),
        Command::Ndr(args) => commands::ndr::run(&args),
        Command::Offload(args) => commands::offload::run(&args),
        Command::Pin(args) => commands::pin::run(&args),
        Command::Ports(args) => commands::ports::run(&args),
        Command::Query(args) => commands::query::run(&args),
        Command::Queues(args) => commands::queues::run(&args),
        Command::Record(args) => commands::record::run(&args),
        Command::Send(args) => commands::send::run(&args),
        Command::Stats(args) => commands::stats::run(&args),
        Command::Trigger(args) => commands::trigger::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
    };
    outcome.map_or_else(|error| report(&error), |()| ExitCode::SUCCESS)
}

/// Runs a whole companion program. Like the command, it prints an error, also in its arguments.
pub fn companion<C: Parser>(run: impl FnOnce(C) -> wirelane::Result<()>) -> ExitCode {
    prepare();
    match C::try_parse() {
        Ok(cli) => run(cli).map_or_else(|error| report(&error), |()| ExitCode::SUCCESS),
        Err(error) => refuse(&error, None),
    }
}

fn prepare() {
    wirelane_os::memory::spare_address_space();
    // A file size limit must be an error to report. SIGXFSZ would end the process.
    process::survive_file_limits();
}

/// The command line of the program, for manual pages and completions.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// The long options of a subcommand.
fn long_options(subcommand: &OsStr) -> Vec<String> {
    let mut command = Cli::command();
    command.build();
    let subcommand = command.get_subcommands().find(|one| subcommand == one.get_name());
    let arguments = subcommand.into_iter().flat_map(clap::Command::get_arguments);
    arguments.filter_map(clap::Arg::get_long).map(str::to_owned).collect()
}

/// Parses `words`, or `expanded` words with the options of a file. If the first word names a
/// subcommand, only its options are built. Help, and a word that is no subcommand, need the
/// options of all.
fn parse(words: &[OsString], expanded: Option<Vec<OsString>>) -> Result<Cli, clap::Error> {
    // Options of the command line come after those of the file.
    let mut command = Cli::command().args_override_self(expanded.is_some());
    let first = words.get(1).map(OsString::as_os_str).unwrap_or_default();
    if command.get_subcommands().all(|one| first != one.get_name()) {
        command.build();
    }
    let mut matches = match expanded {
        None => command.try_get_matches_from(words)?,
        Some(expanded) => command.try_get_matches_from(expanded)?,
    };
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut Cli::command()))
}

/// Prints help and version unchanged. Prints errors in the arguments like all errors, with an
/// option to use instead.
fn refuse(error: &clap::Error, instead: Option<(&str, &'static str)>) -> ExitCode {
    use clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand as NoCommand;
    if !error.use_stderr() || error.kind() == NoCommand {
        // The reader may be gone.
        let _ = error.print();
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let error = match instead {
        Some((option, help)) => {
            Error::usage(option, "`wirelane capture` has no such option").help(help)
        }
        None => usage::error(error),
    };
    report(&error)
}

/// The replacement for an option of another program.
fn instead(error: &clap::Error) -> Option<(&str, &'static str)> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    // `capture`, or an option before it: only `capture` has tcpdump's options.
    let is_capture = std::env::args_os().skip(1).any(|word| word == "capture");
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(option)) => option.as_str(),
        _ => return None,
    };
    let applies = is_capture && error.kind() == ErrorKind::UnknownArgument;
    let help =
        applies.then(|| commands::capture::foreign_options::instead_of(unknown)).flatten()?;
    Some((unknown, help))
}

/// Prints the error. A closed reader of the output is no failure.
fn report(error: &Error) -> ExitCode {
    if error.kind() == ErrorKind::BrokenPipe {
        return ExitCode::SUCCESS;
    }
    output::error(error);
    ExitCode::from(if error.kind() == ErrorKind::Usage { 2 } else { 1 })
}
