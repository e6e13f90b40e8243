//! Runs a session to its end, in the same way for every live command.

use std::time::{Duration, Instant};

use wirelane::halt::Halt;
use wirelane::port::PortInfo;
use wirelane::session::Session;
use wirelane::session::monitor::Monitor;
use wirelane::{Error, Result};

use super::announce::Doing;
use super::service::Service;
use super::show::{LiveLines, LiveScreen};
use super::start::StartedCommand;
use super::worker::LiveWorker;
use crate::background::has_come;
use crate::control::{ControlServer, ControlledCommand, Served};
use crate::output::progress::ReceiveProgress;
use crate::output::summary::Summary;
use crate::output::{headline, screen};
use crate::steering::Diversion;

/// How a session was opened.
pub(crate) struct OpenedSession<'a> {
    pub(crate) doing: Doing<'a>,
    /// The packets that each port takes from the host.
    pub(crate) diversions: Vec<Option<Diversion>>,
    /// The filter of the ports, which `wirelane mask` can replace.
    pub(crate) filter: Option<&'a str>,
}

/// Prints how the ports were opened, answers other commands while `session` runs, waits for its
/// end, and reports the summary that `summarize` makes of the outcome and the start time.
///
/// # Errors
/// The first error of the session, or of the report.
pub(crate) fn run_live<W: LiveWorker>(
    start: StartedCommand<'_>,
    session: Session<W>,
    opened: OpenedSession<'_>,
    show: &mut impl LiveLines<W>,
    summarize: impl FnOnce(W::Outcome, Instant) -> Result<(Summary, Vec<Error>)>,
) -> Result<()> {
    let started = Instant::now();
    let monitor = session.monitor();
    if !start.args.quiet {
        opened.doing.announce(session.ports(), start.verbose);
    }
    let control = ControlServer::start(ControlledCommand {
        command: start.command,
        started,
        monitor: monitor.clone(),
        ports: Served::all(
            session.controls().to_vec(),
            session.switches(),
            opened.diversions,
            opened.filter,
        ),
        receives: W::RECEIVES,
        dropped_privileges: start.privileges.are_dropped(),
        store: show.store(),
    });
    let mut service = Service::of_environment();
    let names = PortInfo::names(monitor.ports()).join(", ");
    service.ready(&format!("{} {names}", start.command));
    watch(&start, &session, &monitor, show, (&mut service, started));
    service.stopping();
    let notes_at_opening = monitor.ports().iter().flat_map(|port| port.notes.clone()).collect();
    // Stop answering requests before queues and files are closed.
    drop((control, monitor));
    let (mut summary, errors) = summarize(session.join(), started)?;
    summary.notes_at_opening = notes_at_opening;
    start.conclude(summary, errors)
}

/// Waits for the end. A terminal shows the progress, SIGUSR1 prints the counters, and the service
/// manager learns that the threads work.
fn watch<W: LiveWorker>(
    start: &StartedCommand<'_>,
    session: &Session<W>,
    monitor: &Monitor,
    show: &mut impl LiveLines<W>,
    (service, started): (&mut Service, Instant),
) {
    let (mut progress, pace) = match show.screen() {
        LiveScreen::Figures(file) if !start.args.quiet => {
            let progress =
                ReceiveProgress::new(started, PortInfo::names(monitor.ports()), monitor.read());
            let pace = progress.as_ref().map_or(PAUSE, |_| FRAME);
            (progress.map(|progress| progress.into_file(file)), pace)
        }
        LiveScreen::Own => (None, FRAME),
        _ => (None, PAUSE),
    };
    let duration = start.args.duration.filter(|_| !W::ENDS_IN_TIME);
    let handle = session.handle();
    let pace = pace.min(service.pace());
    let wait = |pause: Duration| session.wait(pause.min(W::LONGEST_WAIT));
    attend(wait, duration, (&start.halt, pace), started, |event| match event {
        SessionEvent::Asked => {
            headline::print_so_far(monitor.read(), started.elapsed().as_secs_f64());
            show.report(session);
        }
        SessionEvent::Passed => {
            show.update(session, &|| monitor.read(), progress.as_mut());
            let status = || headline::so_far(monitor.read(), started.elapsed().as_secs_f64());
            service.tick(Instant::now(), || handle.rounds(), status);
        }
    });
    screen::clear();
}

/// An event while a session runs.
pub(crate) enum SessionEvent {
    /// SIGUSR1 has asked for a report.
    Asked,
    /// Some time has passed.
    Passed,
}

/// The interval of updates without a signal: with a screen, and without one.
pub(crate) const FRAME: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(500);

/// Waits for a signal, for `duration` after `started`, or for the end of the session: `wait` waits
/// for a limited time and returns whether the session has ended. Calls `tell` about every `pace`.
pub(crate) fn attend(
    wait: impl Fn(Duration) -> bool,
    duration: Option<Duration>,
    (halt, pace): (&Halt, Duration),
    started: Instant,
    mut tell: impl FnMut(SessionEvent),
) {
    // The session has begun: its own duration counts.
    halt.limit(None);
    let mut reports = 0;
    while !halt.is_asked() {
        if has_come(&mut reports, Halt::reports()) {
            tell(SessionEvent::Asked);
        }
        let mut pause = pace;
        if let Some(duration) = duration {
            let left = duration.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            pause = pause.min(left);
        }
        if wait(pause) {
            break;
        }
        tell(SessionEvent::Passed);
    }
}
