//! Packets of ports; files are ports, too.

use std::path::Path;
use std::sync::Arc;

use wirelane::Result;
use wirelane::pcap::{FileFormat, WriterOptions};
use wirelane::session::capture::{Capture, CaptureConfig, OutputConfig};

use super::destination::PacketDestination;
use super::file;
use crate::commands::flows::arguments::FlowsArgs;
use crate::commands::flows::program::{self, SinkProgram};
use crate::companion::QUERY;
use crate::live::{Doing, LiveScreen, OpenedSession, StartedCommand, run_live};
use crate::output::summary::{Export, Summary};
use crate::overwrite;

pub(super) fn run(args: &FlowsArgs, mut start: StartedCommand<'_>) -> Result<()> {
    args.check_no_span()?;
    let access = program::access(args)?;
    start.privileges.give_files_to(access.group);
    let (specs, filter) = args.sources()?;
    let destination = PacketDestination::of(args)?;
    if let Some(output) = program::output_file(args) {
        overwrite::refuse_ports(output, &specs)?;
    }
    let mut input = args.input.clone().with_filter(filter.as_deref())?;
    input.only_headers = !args.data;
    if let Some(path) = file::whole(args, &specs, &input) {
        return file::run(args, path, &destination, access, start);
    }
    let (ports, diversions) = input.open(&specs, &start)?;
    args.habits.check(&ports)?;
    start.privileges.give_away(&ports)?;
    let to = start.explained(destination.open(access))?;
    let mut program = SinkProgram::start(to, &destination.options())?;
    let config = CaptureConfig::default()
        .output(program.input().map(|input| {
            let (open, format) = (Some(Arc::new(program::file(input))), FileFormat::Pcapng);
            let path = Path::new(QUERY.name);
            let options = WriterOptions::of_path(path).open(open).format(format);
            OutputConfig::new(path).options(options)
        }))
        .halt(start.halt.clone())
        .single(input.single)
        .placement(input.placement(&args.session)?)
        .packets(args.session.count)
        .sort(true);
    let capture = start.explained(Capture::start(ports, &config))?;
    let opened =
        OpenedSession { doing: Doing::Input("packets of"), diversions, filter: input.filter() };
    let mut screen =
        if destination.is_output() { LiveScreen::Packets } else { LiveScreen::Figures(None) };
    run_live(start, capture, opened, &mut screen, |mut outcome, started| {
        // The program reads until every writer has closed the pipe.
        drop(config);
        let (told, ended) = program.finish();
        outcome.errors.extend(ended.err());
        let given = outcome.written.map(|written| written.packets);
        let export = Export::of_packets(&destination.name(), told, given);
        Ok((Summary::of_packets(&outcome, export, started), outcome.errors))
    })
}
