//! `wirelane trigger`: makes a recording write the packets in its memory and the next ones.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use clap::Args;
use serde::Serialize;
use wirelane::{Error, Result};

use crate::control::request::{ControlRequest, Triggered};
use crate::control::{self, CommandConnection};
use crate::output;

/// Make a recording keep the packets around this moment.
///
/// The recording must have been started with --trigger, --before or --after. It writes the packets
/// of the time before, from its memory, and of the time after. SIGUSR2 does the same. Without PID
/// or DIR, triggers the only recording that is running.
#[derive(Args, Clone, Debug)]
pub(crate) struct TriggerArgs {
    /// The recording: its process id, which `wirelane stats` lists, or the directory of its store
    #[arg(value_name = "PID|DIR")]
    which: Option<OsString>,
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
    let pid = match &args.which {
        None => only()?,
        Some(word) => match word.to_str().and_then(|word| word.parse().ok()) {
            Some(pid) => pid,
            None => into(Path::new(word))?,
        },
    };
    let triggered: Triggered = control::ask(pid, &ControlRequest::Trigger)?;
    if args.json {
        return output::json(&Document { schema: "wirelane.trigger/1", pid, triggered });
    }
    output::print(&format!("{triggered}\n"))
}

/// The recordings of this user.
fn recordings() -> Vec<CommandConnection> {
    let sessions = control::sessions().known.into_iter();
    sessions.filter(|session| session.identity.command == "record").collect()
}

/// The only recording of this user.
fn only() -> Result<u32> {
    match recordings().as_slice() {
        [CommandConnection { pid, .. }] => Ok(*pid),
        [] => Err(Error::failed("trigger", "no `wirelane record` of this user is running")
            .help("root sees the commands of all users")),
        several => {
            let stores = several.iter().filter_map(|session| session.identity.store.as_deref());
            let stores: Vec<_> = stores.map(output::printable).collect();
            let cause = format!("several recordings are running, into {}", stores.join(", "));
            Err(Error::usage("trigger", cause).help("name the directory or the process id of one"))
        }
    }
}

/// The process that records into this store.
fn into(directory: &Path) -> Result<u32> {
    let name = directory.display().to_string();
    let unknown = |_| {
        Error::usage(format!("'{name}'"), "it is neither a process id nor a directory")
            .help("name the process id or the store of a recording; `wirelane stats` lists them")
    };
    let wanted = place(directory).map_err(unknown)?;
    let is_it = |session: &CommandConnection| {
        let store = session.identity.store.as_deref();
        store.is_some_and(|store| place(Path::new(store)).is_ok_and(|place| place == wanted))
    };
    let found = recordings().into_iter().find(is_it).map(|session| session.pid);
    found.ok_or_else(|| {
        Error::failed(name, "no `wirelane record` of this user writes into it")
            .help("root sees the commands of all users; `wirelane stats` lists them")
    })
}

/// Device and inode of a directory.
fn place(directory: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(directory).map(|about| (about.dev(), about.ino()))
}
