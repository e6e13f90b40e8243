//! `wirelane mask`: reads or changes the packet selection of a running command.

use clap::Args;
use wirelane::Result;

use crate::args;
use crate::control;
use crate::control::request::{ControlRequest, FilterChange, MaskChange, Select};
use crate::control::settings::PortSettings;

/// Show or change the queue masks and the filter of a running capture or forward.
///
/// Without a change, print the current settings of all ports, or of the one chosen by --port.
/// QUEUES is all, none or a list such as 0,2-3 and replaces the mask; +LIST adds queues to it and
/// -LIST removes them. A change loses and duplicates no packet of a queue that stays selected; each
/// packet is judged by the old filter or by the new one.
#[derive(Args, Clone, Debug)]
pub(crate) struct MaskArgs {
    /// Process id of the running command; `wirelane stats` lists them
    #[arg(value_name = "PID")]
    pid: u32,
    /// Which port, by its position on the command line: 0 or 1; not needed if there is only one
    #[arg(long, value_name = "N")]
    port: Option<usize>,
    /// Change the RX queues
    #[arg(long, value_name = "QUEUES", allow_hyphen_values = true)]
    rx_queues: Option<String>,
    /// Change the TX queues
    #[arg(long, value_name = "QUEUES", allow_hyphen_values = true)]
    tx_queues: Option<String>,
    /// Whether to select packets tied to no queue
    #[arg(long, value_name = "on|off", value_parser = args::switch)]
    other: Option<bool>,
    /// Apply the masks
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// Ignore the masks: every packet passes
    #[arg(long)]
    disable: bool,
    /// Replace the filter: a tcpdump expression, or the output of `tcpdump -ddd`
    #[arg(short = 'f', long, value_name = "EXPR", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Remove the filter
    #[arg(long, conflicts_with = "filter")]
    no_filter: bool,
    /// Print one JSON object (schema wirelane.mask/1)
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// There is no such command, or it refuses the change.
pub(crate) fn run(args: &MaskArgs) -> Result<()> {
    let filter = args.filter.clone().map(FilterChange::Text);
    let select = Select {
        port: args.port,
        rx: args.rx_queues.clone(),
        tx: args.tx_queues.clone(),
        other: args.other,
        enabled: (args.enable || args.disable).then_some(args.enable),
        filter: filter.or(args.no_filter.then_some(FilterChange::None)),
    };
    let selected: Vec<MaskChange> = control::ask(args.pid, &ControlRequest::Select(select))?;
    PortSettings { schema: "wirelane.mask/1", of: selected }.show(args.pid, args.json, |it| it.port)
}
