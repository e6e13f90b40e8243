//! Flows of ports; files are ports, too.

use std::time::Instant;

use wirelane::halt::Halt;
use wirelane::{Result, clock};
use wirelane_flow::session::Metering;

use super::arguments::FlowsArgs;
use super::program;
use super::sinks::Sinks;
use crate::control::{ControlServer, Served, Subject};
use crate::output::summary::Summary;
use crate::overwrite;
use crate::session::{self, Privileges, Screen};

pub(super) fn run(args: &FlowsArgs, halt: &Halt) -> Result<()> {
    args.check_no_span()?;
    let access = program::access(args)?;
    let (specs, filter) = args.sources()?;
    let config = args.config()?;
    Sinks::check(args)?;
    if let Some(output) = program::output_file(args) {
        overwrite::refuse_ports(output, &specs)?;
    }
    let mut privileges = Privileges::new(&args.session)?.with_group(access.group);
    let mut look = args.look.clone().with_filter(filter.as_deref())?;
    look.tells_apart = true;
    let open = |spec| look.open_spec(spec, &args.session, halt);
    let opened = specs.iter().map(open).collect::<Result<Vec<_>>>()?;
    let (ports, tolls): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    ports.iter().try_for_each(|port| args.habits.check(port.info()))?;
    privileges.give_away(&ports)?;
    let (sinks, told) =
        Sinks::open(args, access, halt).map_err(|error| privileges.explain(error))?;
    let metering =
        Metering::start(ports, sinks, &config).map_err(|error| privileges.explain(error))?;
    let started = Instant::now();
    if !args.session.quiet {
        metering
            .ports()
            .for_each(|port| session::announce_input("flows of", port, args.verbose.verbose));
    }
    let control = ControlServer::start(Subject {
        command: "flows",
        started,
        monitor: metering.monitor(),
        ports: Served::all(metering.controls(), tolls, look.filter()),
        dropped_privileges: privileges.are_dropped(),
        store: None,
    });
    let wait = |pause| metering.wait(pause);
    let screen = Screen::Free(told.path());
    session::watch(&metering.monitor(), wait, &args.session, halt, started, screen);
    // Nobody looks any more when the ends of the queues are taken down.
    drop(control);
    let outcome = metering.join();
    let summary = Summary::of_flows(&outcome, started.elapsed(), clock::process_cpu())
        .with_exports(told.exports());
    let mut errors = outcome.errors;
    errors.extend(told.print().err());
    session::conclude(&summary, &args.session, errors, &privileges, args.verbose.verbose)
}
