//! `wirelane flows --packets`: a row for each packet. The program `wirelane-query` makes the rows.
//! It gets the packets through a pipe, or reads a whole capture file by itself.

mod destination;
mod file;
mod live;
mod store;

use wirelane::{Error, Result};

use super::arguments::FlowsArgs;
use crate::live::StartedCommand;

/// Runs the command.
///
/// # Errors
/// As for flows.
pub(super) fn run(args: &FlowsArgs, is_store: bool, start: StartedCommand<'_>) -> Result<()> {
    if let Some((option, _)) = args.of_flows().find(|(_, is_given)| *is_given) {
        let error = Error::usage(option, "it is about flows, and --packets is about packets");
        return Err(error.help("leave one of them out"));
    }
    if is_store { store::run(args, start) } else { live::run(args, start) }
}
