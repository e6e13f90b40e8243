//! `wirelane trigger`: makes a recording write what it holds in memory, and what comes next.

use clap::Args;
use serde::Serialize;
use wirelane::{Error, Result};

use crate::control::request::{Request, Triggered};
use crate::control::{self, Session};
use crate::output;

/// Make a recording keep the packets around this moment.
///
/// The recording is one that was started with --trigger, --before or --after. It writes what came
/// in the time before that it holds in memory, and what comes in the time after. SIGUSR2 does the
/// same. Without PID, triggers the only recording that is running.
#[derive(Args, Clone, Debug)]
pub(crate) struct TriggerArgs {
    /// Process id of the recording; `wirelane stats` lists them
    #[arg(value_name = "PID")]
    pid: Option<u32>,
    /// Print one JSON object (schema wirelane.trigger/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    pid: u32,
    #[serde(flatten)]
    triggered: Triggered,
}

/// Runs the command.
///
/// # Errors
/// There is no such recording, or it has no trigger.
pub(crate) fn run(args: &TriggerArgs) -> Result<()> {
    let pid = args.pid.map_or_else(only, Ok)?;
    let triggered: Triggered = control::ask(pid, &Request::Trigger)?;
    if args.json {
        return output::json(&Document { schema: "wirelane.trigger/1", pid, triggered });
    }
    output::print(&format!("{triggered}\n"))
}

/// The only recording of this user.
fn only() -> Result<u32> {
    let sessions = control::sessions().known.into_iter();
    let recordings: Vec<_> =
        sessions.filter(|session| session.identity.command == "record").collect();
    match recordings.as_slice() {
        [Session { pid, .. }] => Ok(*pid),
        [] => Err(Error::failed("trigger", "no `wirelane record` of this user is running")
            .help("root sees the commands of all users")),
        _ => Err(Error::usage("trigger", "several recordings are running")
            .help("give the process id of one; `wirelane stats` lists them")),
    }
}
