//! Packets of a store that `wirelane record` has written.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use wirelane::{Error, Result};
use wirelane_store::query;

use super::destination::PacketDestination;
use crate::commands::extract::file::ExtractFile;
use crate::commands::flows::arguments::FlowsArgs;
use crate::commands::flows::program::{self, SinkProgram};
use crate::commands::flows::store;
use crate::companion::QUERY;
use crate::live::StartedCommand;
use crate::output::summary::{Export, Summary};
use crate::{overwrite, stores};

pub(super) fn run(args: &FlowsArgs, mut start: StartedCommand<'_>) -> Result<()> {
    let access = program::access(args)?;
    start.privileges.give_files_to(access.group);
    let halt = &start.halt;
    let (paths, expression) = stores::split(&args.words)?;
    let query = store::query(args, &expression, halt)?;
    let destination = PacketDestination::of(args)?;
    let stores = stores::open(&paths)?;
    if let Some(output) = program::output_file(args) {
        overwrite::refuse_stores(output, &stores)?;
    }
    start.privileges.give_away(&[])?;
    let to = start.explained(destination.open(access))?;
    let mut program = SinkProgram::start(to, &destination.options())?;
    let Some(input) = program.input().map(program::file) else { return Ok(()) };
    let mut output = ExtractFile::of_open(input, Path::new(QUERY.name), halt);
    let started = Instant::now();
    halt.limit(args.session.duration);
    let (mut packets, mut octets, mut refusal) = (0, 0, None);
    let most = args.session.count.unwrap_or(u64::MAX);
    let report = query::run(&stores, &query, |found| {
        if packets >= most {
            return ControlFlow::Break(());
        }
        if let Err(error) = output.write(found) {
            refusal = Some(error);
            return ControlFlow::Break(());
        }
        packets += 1;
        octets += u64::from(found.record.original_len);
        ControlFlow::Continue(())
    });
    let written = match refusal {
        Some(error) => Err(error),
        None => output.finish().map(drop),
    };
    let (told, ended) = program.finish();
    let mut errors: Vec<_> = written.err().into_iter().chain(ended.err()).collect();
    let export = Export::of_packets(&destination.name(), told, Some(packets));
    let summary = Summary::of_stored_packets(&paths, Some(octets), export, started);
    match report.map_err(Error::from) {
        Ok(report) => errors.extend(store::troubles(&report, packets)),
        Err(error) => errors.push(error),
    }
    start.conclude(summary, errors)
}
