//! `wirelane mask`: reads or changes the queue masks of a running capture.

use std::io::{self, Write as _};

use clap::Args;
use serde::Serialize;
use wirelane::{Error, Result};

use crate::args;
use crate::control::{self, Change, Reply};
use crate::output;

/// Read or change the queue masks of a running capture.
///
/// Without a change, print the masks in force. QUEUES is all, none or a list such as 0,2-3, which
/// replaces the mask; +LIST sets queues of it and -LIST clears them. No packet of a queue that
/// stays selected is lost or seen twice.
#[derive(Args, Clone, Debug)]
pub(crate) struct MaskArgs {
    /// Process id of the capture
    #[arg(value_name = "PID")]
    pid: u32,
    /// Change the RX queues
    #[arg(long, value_name = "QUEUES", allow_hyphen_values = true)]
    rx_queues: Option<String>,
    /// Change the TX queues
    #[arg(long, value_name = "QUEUES", allow_hyphen_values = true)]
    tx_queues: Option<String>,
    /// Select packets that are tied to no queue, or not
    #[arg(long, value_name = "on|off", value_parser = args::switch)]
    other: Option<bool>,
    /// Select by the masks
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// Let every packet pass, whatever the masks say
    #[arg(long)]
    disable: bool,
    /// Print one JSON object (schema wirelane.mask/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    #[serde(flatten)]
    masks: Reply,
}

/// Runs the command.
///
/// # Errors
/// There is no such capture, or it refuses the change.
pub(crate) fn run(args: &MaskArgs) -> Result<()> {
    let change = Change {
        rx: args.rx_queues.clone(),
        tx: args.tx_queues.clone(),
        other: args.other,
        enabled: (args.enable || args.disable).then_some(args.enable),
    };
    let reply = control::ask(args.pid, &change)?;
    if args.json {
        return output::json(&Document { schema: "wirelane.mask/1", masks: reply });
    }
    let state = if reply.enabled { "" } else { " (disabled: everything passes)" };
    let other = if reply.other { "on" } else { "off" };
    writeln!(io::stdout(), "rx {} tx {} other {other}{state}", reply.rx, reply.tx)
        .map_err(|error| Error::io("standard output", "write", error))
}
