//! `wirelane lab exec`: becomes a command in one end of a lab.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use clap::Args;
use wirelane::Error;
use wirelane_lab::Side;

use super::name::{CommandFailure, Name};
use crate::output;

/// Run a command in one end of a lab.
///
/// The command replaces this process: it receives its signals, and its exit status is the
/// command's. The status is 126 if the command cannot be run, 127 if it does not exist, and 125 if
/// the lab does not exist. /sys shows the interfaces of the lab.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    lab: Name,
    /// Which end of the lab: a or b
    #[arg(value_name = "a|b")]
    side: Side,
    /// The command and its arguments, after --
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    command: Vec<OsString>,
}

/// Becomes the command; returns only if that fails.
pub(super) fn run(args: &ExecArgs) -> CommandFailure {
    match args.lab.lab.enter(args.side) {
        Err(error) => return CommandFailure { error, status: Some(LAB_MISSING) },
        Ok(Some(note)) => output::line(format_args!("wirelane: {note}")),
        Ok(None) => {}
    }
    let Some((program, arguments)) = args.command.split_first() else {
        // The parser demands one.
        return Error::usage("arguments", "there is no command").help("write one after --").into();
    };
    let failure = Command::new(program).args(arguments).exec();
    let status =
        if failure.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE };
    let name = program.to_string_lossy();
    let error = Error::io(format!("command {name}"), "execve", failure);
    CommandFailure { error, status: Some(status) }
}

/// Exit statuses, as in env(1).
const LAB_MISSING: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
