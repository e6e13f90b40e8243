//! Flows of ports; files are ports, too.

use wirelane::Result;
use wirelane_flow::session::Metering;

use super::arguments::FlowsArgs;
use super::program;
use super::sinks::Sinks;
use crate::live::{Doing, LiveScreen, OpenedSession, StartedCommand, run_live};
use crate::output::summary::Summary;
use crate::overwrite;

pub(super) fn run(args: &FlowsArgs, mut start: StartedCommand<'_>) -> Result<()> {
    args.check_no_span()?;
    let access = program::access(args)?;
    start.privileges.give_files_to(access.group);
    let (specs, filter) = args.sources()?;
    let config = args.config()?;
    Sinks::check(args)?;
    if let Some(output) = program::output_file(args) {
        overwrite::refuse_ports(output, &specs)?;
    }
    let input = args.input.clone().with_filter(filter.as_deref())?;
    let (ports, diversions) = input.open(&specs, &start)?;
    args.habits.check(&ports)?;
    start.privileges.give_away(&ports)?;
    let (sinks, told) = start.explained(Sinks::open(args, access, &start.halt))?;
    let metering = start.explained(Metering::start(ports, sinks, &config))?;
    let opened =
        OpenedSession { doing: Doing::Input("flows of"), diversions, filter: input.filter() };
    run_live(start, metering, opened, &mut LiveScreen::Figures(told.path()), |outcome, started| {
        let summary = Summary::of_flows(&outcome, started).with_exports(told.exports());
        let mut errors = outcome.errors;
        errors.extend(told.print().err());
        Ok((summary, errors))
    })
}
