//! `wirelane flows`: two-way flows of ports, files and stores.

mod arguments;
mod files;
mod live;
mod output;
mod packets;
mod program;
mod sinks;
mod store;
mod top;

use std::path::Path;

use wirelane::Result;

pub(crate) use self::arguments::FlowsArgs;
use crate::live::StartedCommand;
use crate::{habits, stores};

/// Runs the command.
///
/// # Errors
/// The command cannot start, or an error ended it early. The flows metered before have been
/// written.
pub(crate) fn run(args: &FlowsArgs) -> Result<()> {
    if args.habits.list_interfaces {
        return habits::list();
    }
    let start = StartedCommand::new("flows", &args.session, args.verbose.verbose)?;
    let is_store = args.words.first().is_some_and(|word| stores::is_store(Path::new(word)));
    match (args.packets, is_store && args.read.is_none()) {
        (true, is_store) => packets::run(args, is_store, start),
        (false, true) => store::run(args, start),
        (false, false) => live::run(args, start),
    }
}
