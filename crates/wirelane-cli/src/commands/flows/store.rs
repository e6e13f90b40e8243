//! Flows of a store that `wirelane record` has written.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use wirelane::halt::Halt;
use wirelane::{Error, Result};
use wirelane_flow::session::Collector;
use wirelane_flow::{Meter, Packet, Room};
use wirelane_store::query::{self, Query, Report};
use wirelane_store::random_number;

use super::arguments::FlowsArgs;
use super::program;
use super::sinks::Sinks;
use crate::live::StartedCommand;
use crate::output::summary::{FlowFigures, Summary};
use crate::{output, overwrite, stores};

pub(super) fn run(args: &FlowsArgs, mut start: StartedCommand<'_>) -> Result<()> {
    let access = program::access(args)?;
    start.privileges.give_files_to(access.group);
    let halt = &start.halt;
    let (paths, expression) = stores::split(&args.words)?;
    let query = query(args, &expression, halt)?;
    Sinks::check(args)?;
    let stores = stores::open(&paths)?;
    if let Some(output) = program::output_file(args) {
        overwrite::refuse_stores(output, &stores)?;
    }
    start.privileges.give_away(&[])?;
    let (sinks, told) = start.explained(Sinks::open(args, access, halt))?;
    let started = Instant::now();
    halt.limit(args.session.duration);
    let collector = Collector::start(sinks, true)?;
    let (room, note) = Room::fitting(args.max_flows())?;
    if let Some(note) = note {
        output::note(note);
    }
    let mut search = FlowSearch {
        meter: Meter::new(args.meter(), Arc::new(room), random_number()),
        interfaces: Vec::new(),
        packets: 0,
        octets: 0,
    };
    let most = args.session.count.unwrap_or(u64::MAX);
    let report = query::run(&stores, &query, |found| {
        search.take(found);
        collector.take_from(&mut search.meter);
        match search.packets >= most || collector.has_failed() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    collector.finish(&mut search.meter);
    let metered = search.meter.counts();
    let (flows, failure_of_sink) = collector.join();
    let figures = FlowFigures { metered, flows };
    let counted = (search.packets, search.octets);
    let summary =
        Summary::of_stored_flows(&paths, counted, figures, started).with_exports(told.exports());
    let mut errors: Vec<_> = failure_of_sink.into_iter().collect();
    errors.extend(told.print().err());
    match report.map_err(Error::from) {
        Ok(report) => errors.extend(troubles(&report, metered.packets)),
        Err(error) => errors.push(error),
    }
    start.conclude(summary, errors)
}

pub(super) fn query(args: &FlowsArgs, expression: &str, halt: &Halt) -> Result<Query> {
    let span = args.span()?;
    let words = Some(expression).filter(|words| !words.is_empty());
    let input = args.input.clone().with_filter(words)?;
    Ok(Query::all()
        .from(span.from)
        .to(span.to)
        .filter(stores::filter(input.filter().unwrap_or_default())?)
        .cancel(halt))
}

/// Prints notes on an incomplete answer, and returns the damage as errors.
pub(super) fn troubles(report: &Report, packets: u64) -> Vec<Error> {
    report.unfiltered.iter().for_each(output::note);
    if packets == 0 && report.damage.is_empty() {
        output::note("no packet of the store matches");
    }
    let damage = |damage: &query::Damage| Error::failed("store", damage.to_string());
    report.damage.iter().map(damage).collect()
}

struct FlowSearch {
    meter: Meter,
    /// Number and link type of each interface.
    interfaces: Vec<(u16, u16)>,
    packets: u64,
    octets: u64,
}

impl FlowSearch {
    fn take(&mut self, found: &query::Found<'_>) {
        for source in found.sources.iter().skip(self.interfaces.len()) {
            self.interfaces.push((self.meter.interface(&source.name), source.link_type));
        }
        let number = found.record.interface as usize;
        let Some(&(interface, link_type)) = self.interfaces.get(number) else { return };
        let queue = found.sources.get(number).and_then(|source| source.queue).unwrap_or(0);
        self.packets += 1;
        self.octets += u64::from(found.record.original_len);
        self.meter.push(&Packet {
            link_type,
            data: found.record.data,
            original_len: found.record.original_len,
            time: found.record.timestamp,
            interface,
            queue: u16::try_from(queue).unwrap_or(u16::MAX),
        });
    }
}
