//! `wirelane capture`: every selected queue of all ports in parallel, counted or written.

mod arguments;
mod netns;
mod words;

use std::sync::Arc;
use std::time::Instant;

use wirelane::port::Control;
use wirelane::session::capture::Capture;
use wirelane::{Error, Result, clock};

pub(crate) use self::arguments::CaptureArgs;
use self::words::Words;
use crate::control::{ControlServer, Served, Subject};
use crate::output::summary::Summary;
use crate::session::{self, Privileges};
use crate::take::Toll;

/// Runs the command.
///
/// # Errors
/// Everything that keeps the capture from starting, or the first thing that ended it early; what
/// was captured before is in the file.
pub(crate) fn run(args: &CaptureArgs) -> Result<()> {
    if args.session.json && args.write.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Error::usage("--json", "standard output already takes the packets of -w -")
            .help("write the packets to a file"));
    }
    let halt = session::begin(&args.session)?;
    let config = args.config(&halt)?;
    let Words { ports: names, filter } = Words::split(&args.words)?;
    let mut privileges = Privileges::new(&args.session)?;
    let mut look = args.look.clone().with_filter(filter.as_deref())?;
    look.every_interface = true;
    let open = |port| look.open(port, &args.session, &halt);
    let open_all = || names.iter().map(open).collect::<Result<Vec<_>>>();
    let opened = match &args.netns {
        Some(namespace) => netns::inside(namespace, open_all)?,
        None => open_all()?,
    };
    let (ports, tolls): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
    privileges.give_away()?;
    let capture = Capture::start(ports, &config).map_err(|error| privileges.explain(error))?;
    let started = Instant::now();
    if !args.session.quiet {
        capture.ports().for_each(|port| session::announce("capturing on", port));
    }
    let served = |(control, toll): (&Arc<dyn Control>, Option<Toll>)| {
        Served::new(Arc::clone(control), look.filter()).guarded_by(toll)
    };
    let control = ControlServer::start(Subject {
        command: "capture",
        started,
        monitor: capture.monitor(),
        ports: capture.controls().iter().zip(tolls).map(served).collect(),
        dropped_privileges: privileges.are_dropped(),
        store: None,
    });
    let wait = |pause| capture.wait(pause);
    session::watch(&capture.monitor(), wait, &args.session, &halt, started, args.write.as_deref());
    // Nobody looks any more when the ends of the queues are taken down.
    drop(control);
    let outcome = capture.join();
    let output = config.output.as_ref();
    let summary = Summary::of_capture(&outcome, output, started.elapsed(), clock::process_cpu());
    session::conclude(&summary, &args.session, outcome.errors, &privileges, false)
}
