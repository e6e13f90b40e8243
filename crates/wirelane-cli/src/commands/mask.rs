//! `wirelane mask`: reads or changes what a running command selects.

use std::io::{self, Write as _};

use clap::Args;
use serde::Serialize;
use wirelane::{Error, Result};

use crate::args;
use crate::control;
use crate::control::request::{Expression, Request, Select, Selected};
use crate::output;

/// Read or change the queue masks and the filter of a running capture or forwarding.
///
/// Without a change, print what is in force. QUEUES is all, none or a list such as 0,2-3, which
/// replaces the mask; +LIST sets queues of it and -LIST clears them. No packet of a queue that
/// stays selected is lost or seen twice, and each packet meets the old or the new filter.
#[derive(Args, Clone, Debug)]
pub(crate) struct MaskArgs {
    /// Process id of the command; `wirelane stats` lists those that run
    #[arg(value_name = "PID")]
    pid: u32,
    /// Which port, by its position in the command: 0 or 1; not needed if there is only one
    #[arg(long, value_name = "N")]
    port: Option<usize>,
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
    /// Replace the filter: an expression as for tcpdump, or what `tcpdump -ddd` prints
    #[arg(short = 'f', long, value_name = "EXPR", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Take all packets that the masks select
    #[arg(long, conflicts_with = "filter")]
    no_filter: bool,
    /// Print one JSON object (schema wirelane.mask/1)
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    #[serde(flatten)]
    selected: Selected,
}

/// Runs the command.
///
/// # Errors
/// There is no such command, or it refuses the change.
pub(crate) fn run(args: &MaskArgs) -> Result<()> {
    let filter = args.filter.clone().map(Expression::Text);
    let select = Select {
        port: args.port,
        rx: args.rx_queues.clone(),
        tx: args.tx_queues.clone(),
        other: args.other,
        enabled: (args.enable || args.disable).then_some(args.enable),
        filter: filter.or(args.no_filter.then_some(Expression::None)),
    };
    let selected: Selected = control::ask(args.pid, &Request::Select(select))?;
    if args.json {
        return output::json(&Document { schema: "wirelane.mask/1", selected });
    }
    writeln!(io::stdout(), "{selected}")
        .map_err(|error| Error::io("standard output", "write", error))
}
