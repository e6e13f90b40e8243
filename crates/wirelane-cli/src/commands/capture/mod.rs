//! `wirelane capture`: every selected queue of all ports in parallel, counted or written.

mod arguments;
pub(crate) mod elsewhere;

use std::time::Instant;

use wirelane::port::{Backend, Spec};
use wirelane::session::capture::Capture;
use wirelane::{Error, Result, clock};

pub(crate) use self::arguments::CaptureArgs;
use crate::control::{ControlServer, Served, Subject};
use crate::output::summary::Summary;
use crate::print::Lines;
use crate::provenance::Provenance;
use crate::session::{self, Privileges, Screen};
use crate::{habits, overwrite};

/// Runs the command.
///
/// # Errors
/// Everything that keeps the capture from starting, or the first thing that ended it early; what
/// was captured before is in the file.
pub(crate) fn run(args: &CaptureArgs) -> Result<()> {
    if args.habits.list_interfaces {
        return habits::list();
    }
    if args.session.json && args.write.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Error::usage("--json", "standard output already takes the packets of -w -")
            .help("write the packets to a file"));
    }
    let halt = session::begin(&args.session)?;
    let access = args.access.access()?;
    let mut config = args.config(access, &halt)?;
    if config.is_short() {
        // Before there are threads.
        wirelane_os::memory::share_heap();
    }
    let style = args.style()?;
    let (words, read, netns) = (&args.words, args.read.as_deref(), &args.session.netns);
    let (specs, filter) = args.habits.split(words, read, netns, &|_| false)?;
    let mut privileges = Privileges::new(&args.session)?.with_group(access.group);
    let mut look = args.look.clone().with_filter(filter.as_deref())?;
    look.tells_apart = true;
    look.is_watched = style.is_some() && args.print.is_watched();
    let is_packet = |spec: &Spec| matches!(spec.backend, None | Some(Backend::Packet));
    if look.is_immediate() && specs.iter().all(is_packet) {
        config.immediate = true;
        config.placement = config.placement.on_one();
    }
    look.all_interfaces = args.split || args.writes_pcap();
    if let Some(output) = &mut config.output {
        // Generated names never replace a file.
        if !output.split && !output.options.rotation.is_active() {
            overwrite::refuse_ports(&output.path, &specs)?;
        }
        let mask = look.mask();
        let is_live = specs.iter().any(|spec| spec.backend != Some(Backend::File));
        let provenance = Provenance { filter: look.filter(), mask: &mask, is_live };
        provenance.add_to(&mut output.options, &args.comment);
    }
    let open = |spec| look.open_spec(spec, &args.session, &halt);
    let opened = specs.iter().map(open).collect::<Result<Vec<_>>>()?;
    let (ports, tolls): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    ports.iter().try_for_each(|port| args.habits.check(port.info()))?;
    privileges.give_away(&ports)?;
    let prints = style.is_some();
    let capture = match style {
        None => Capture::start(ports, &config),
        Some(style) => {
            Capture::start_with_view(ports, &config, Box::new(Lines::new(style, &halt)?))
        }
    };
    let capture = capture.map_err(|error| privileges.explain(error))?;
    let started = Instant::now();
    if !args.session.quiet {
        capture
            .ports()
            .for_each(|port| session::announce_input("capturing on", port, args.print.verbose > 0));
    }
    let control = ControlServer::start(Subject {
        command: "capture",
        started,
        monitor: capture.monitor(),
        ports: Served::all(capture.controls(), tolls, look.filter()),
        dropped_privileges: privileges.are_dropped(),
        store: None,
    });
    let wait = |pause| capture.wait(pause);
    let screen = if prints { Screen::Taken } else { Screen::Free(args.write.as_deref()) };
    session::watch(&capture.monitor(), wait, &args.session, &halt, started, screen);
    // Nobody looks any more when the ends of the queues are taken down.
    drop(control);
    let outcome = capture.join();
    let output = config.output.as_ref();
    let summary = Summary::of_capture(&outcome, output, started.elapsed(), clock::process_cpu());
    session::conclude(&summary, &args.session, outcome.errors, &privileges, args.print.verbose > 0)
}
