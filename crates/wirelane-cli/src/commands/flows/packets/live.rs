//! Packets of ports; files are ports, too.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use wirelane::halt::Halt;
use wirelane::pcap::{FileFormat, WriterOptions};
use wirelane::session::capture::{Capture, CaptureConfig, OutputConfig};
use wirelane::{Result, clock};
use wirelane_os::file::enlarge_pipe;

use super::destination::Destination;
use super::file;
use crate::commands::flows::arguments::FlowsArgs;
use crate::commands::flows::program::{self, Program};
use crate::companion::QUERY;
use crate::control::{ControlServer, Served, Subject};
use crate::output::summary::{Export, Summary};
use crate::overwrite;
use crate::session::{self, Privileges, Screen};

/// Bytes that may be on their way to the program: what it reads at once while the capture goes on.
const PIPE: u32 = 1 << 20;

pub(super) fn run(args: &FlowsArgs, halt: &Halt) -> Result<()> {
    args.check_no_span()?;
    let access = program::access(args)?;
    let (specs, filter) = args.sources()?;
    let destination = Destination::of(args)?;
    if let Some(output) = program::output_file(args) {
        overwrite::refuse_ports(output, &specs)?;
    }
    let mut privileges = Privileges::new(&args.session)?.with_group(access.group);
    let mut look = args.look.clone().with_filter(filter.as_deref())?;
    look.tells_apart = true;
    look.only_headers = !args.data;
    if let Some(path) = file::whole(args, &specs, &look) {
        return file::run(args, path, &destination, access, privileges, halt);
    }
    let open = |spec| look.open_spec(spec, &args.session, halt);
    let opened = specs.iter().map(open).collect::<Result<Vec<_>>>()?;
    let (ports, tolls): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    ports.iter().try_for_each(|port| args.habits.check(port.info()))?;
    privileges.give_away(&ports)?;
    let to = destination.open(access).map_err(|error| privileges.explain(error))?;
    let mut program = Program::start(to, &destination.options())?;
    let config = CaptureConfig {
        output: program.input().map(|input| {
            let input = program::file(input);
            enlarge_pipe(&input, PIPE);
            let (open, format) = (Some(Arc::new(input)), FileFormat::Pcapng);
            let path = Path::new(QUERY.name);
            let options = WriterOptions { open, format, ..WriterOptions::of_path(path) };
            OutputConfig { path: path.into(), options, split: false }
        }),
        halt: halt.clone(),
        single: look.single,
        placement: look.placement(&args.session)?,
        packets: args.session.count,
        sort: true,
        ..CaptureConfig::default()
    };
    let capture = Capture::start(ports, &config).map_err(|error| privileges.explain(error))?;
    let started = Instant::now();
    if !args.session.quiet {
        capture
            .ports()
            .for_each(|port| session::announce_input("packets of", port, args.verbose.verbose));
    }
    let control = ControlServer::start(Subject {
        command: "flows",
        started,
        monitor: capture.monitor(),
        ports: Served::all(capture.controls(), tolls, look.filter()),
        dropped_privileges: privileges.are_dropped(),
        store: None,
    });
    let wait = |pause| capture.wait(pause);
    let screen = if destination.is_output() { Screen::Taken } else { Screen::Free(None) };
    session::watch(&capture.monitor(), wait, &args.session, halt, started, screen);
    // Nobody looks any more when the ends of the queues are taken down.
    drop(control);
    let mut outcome = capture.join();
    // The program reads until nobody holds the other end.
    drop(config);
    let (told, ended) = program.finish();
    outcome.errors.extend(ended.err());
    let given = outcome.written.map(|written| written.packets);
    let export = Export::of_packets(&destination.name(), told, given);
    let summary = Summary::of_packets(&outcome, export, started.elapsed(), clock::process_cpu());
    session::conclude(&summary, &args.session, outcome.errors, &privileges, args.verbose.verbose)
}
