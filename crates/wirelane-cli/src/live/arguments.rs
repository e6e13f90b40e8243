//! The options of live commands, which open ports and run until an event ends them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use wirelane::mask::MAX_QUEUES;
use wirelane::placement::Placement;
use wirelane::{QueueSet, Result};

use crate::args;
use crate::netns::NetnsArgs;

/// Options that every live command has.
#[derive(Args, Clone, Debug)]
pub(crate) struct SessionArgs {
    /// At the end, print the summary as one JSON object (schema wirelane.summary/1) on standard
    /// output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Print no progress and no summary
    #[arg(short = 'q', long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// End after N packets (k, M, G: units of 1000)
    #[arg(short = 'c', long, value_name = "N", value_parser = args::count, help_heading = "Limits")]
    pub(crate) count: Option<u64>,
    /// End after TIME (10s, 500ms, 2m)
    #[arg(long, value_name = "TIME", value_parser = args::duration, help_heading = "Limits")]
    pub(crate) duration: Option<Duration>,
    /// Pin the threads to these CPUs, in turn
    #[arg(long, value_name = "CPUS", help_heading = "Machine")]
    cpus: Option<QueueSet>,
    /// Switch to this user (a name or UID:GID) once the port is open [default: the user who called
    /// sudo]
    #[arg(short = 'Z', long, value_name = "USER", help_heading = "Machine")]
    pub(super) user: Option<String>,
    /// Keep root privileges and capabilities after opening the port
    #[arg(long, conflicts_with = "user", help_heading = "Machine")]
    pub(super) keep_privileges: bool,
    /// Read options from FILE, too, one per line: `max-bytes = 10G` or `wait`; # begins a comment.
    /// Those of the command line override them
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) netns: NetnsArgs,
}

impl SessionArgs {
    /// The CPUs of the queues.
    ///
    /// # Errors
    /// One of them may not be used.
    pub(crate) fn placement(&self) -> Result<Placement> {
        placement(self.cpus.as_ref())
    }
}

/// The CPUs that `--cpus` names.
///
/// # Errors
/// One of them may not be used.
pub(crate) fn placement(cpus: Option<&QueueSet>) -> Result<Placement> {
    match cpus {
        None | Some(QueueSet::All) => Ok(Placement::default()),
        Some(list) => {
            let cpus: Vec<_> = list.members(MAX_QUEUES).map(|cpu| cpu as u32).collect();
            Placement::of(&cpus)
        }
    }
}

/// How much a command says at its end.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct VerboseArgs {
    /// At the end, print all there is: every queue and counter, time, rates and CPU time
    #[arg(short = 'v', long, help_heading = "Output")]
    pub(crate) verbose: bool,
}
