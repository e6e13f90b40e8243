//! What the commands share that open ports and run until something ends them: options, signals,
//! privileges, the wait.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use wirelane::halt::Halt;
use wirelane::inspect::{TxBinding, TxWay};
use wirelane::mask::MAX_QUEUES;
use wirelane::placement::Placement;
use wirelane::port::{Attempt, Backend, Outcome, Port, PortInfo};
use wirelane::session::monitor::Monitor;
use wirelane::{Error, ErrorKind, QueueSet, Result};
use wirelane_os::privilege::Set;

use crate::args;
use crate::netns::NetnsArgs;
use crate::output::headline;
use crate::output::progress::Progress;
use crate::output::report::Report;
use crate::output::summary::Summary;
use crate::output::{self, printable};
use crate::privilege::{self, User};

/// Options of such a command.
#[derive(Args, Clone, Debug)]
pub(crate) struct SessionArgs {
    /// At the end, print the summary as one JSON object (schema wirelane.summary/1) on standard
    /// output
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Print no progress and no summary
    #[arg(short = 'q', long, help_heading = "Output")]
    pub(crate) quiet: bool,
    /// End after N packets (k, M, G: units of 1000)
    #[arg(short = 'c', long, value_name = "N", value_parser = args::count, help_heading = "Limits")]
    pub(crate) count: Option<u64>,
    /// End after TIME (10s, 500ms, 2m)
    #[arg(long, value_name = "TIME", value_parser = args::duration, help_heading = "Limits")]
    pub(crate) duration: Option<Duration>,
    /// Pin the threads to these CPUs, in turn
    #[arg(long, value_name = "CPUS", value_parser = args::queues, help_heading = "Machine")]
    cpus: Option<QueueSet>,
    /// Switch to this user (a name or UID:GID) once the port is open [default: the user who called
    /// sudo]
    #[arg(short = 'Z', long, value_name = "USER", help_heading = "Machine")]
    user: Option<String>,
    /// Keep root privileges and capabilities after opening the port
    #[arg(long, conflicts_with = "user", help_heading = "Machine")]
    keep_privileges: bool,
    #[command(flatten)]
    pub(crate) netns: NetnsArgs,
}

impl SessionArgs {
    /// The CPUs of the queues.
    ///
    /// # Errors
    /// One of them may not be used.
    pub(crate) fn placement(&self) -> Result<Placement> {
        match &self.cpus {
            None | Some(QueueSet::All) => Ok(Placement::default()),
            Some(list) => {
                let cpus: Vec<_> = list.members(MAX_QUEUES).map(|cpu| cpu as u32).collect();
                Placement::of(&cpus)
            }
        }
    }
}

/// How much a command says at its end.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct VerboseArgs {
    /// At the end, print all there is: every queue and counter, time, rates and CPU time
    #[arg(short = 'v', long, help_heading = "Output")]
    pub(crate) verbose: bool,
}

/// What is to be done with the privileges of the process.
pub(crate) struct Privileges {
    user: Option<User>,
    /// Whose members may read what is written, if not only the user's own.
    group: Option<u32>,
    keep: bool,
    dropped: bool,
}

impl Privileges {
    /// What `args` say; changes nothing yet.
    ///
    /// # Errors
    /// There is no such user.
    pub(crate) fn new(args: &SessionArgs) -> Result<Self> {
        let user = args.user.as_deref().map(privilege::find_user).transpose()?;
        Ok(Self { user, group: None, keep: args.keep_privileges, dropped: false })
    }

    /// As these; files will be given to this group.
    #[must_use]
    pub(crate) fn with_group(self, group: Option<u32>) -> Self {
        Self { group, ..self }
    }

    /// Gives privileges away, if there are any; before anything is received or created. What
    /// `ports` need later stays.
    ///
    /// # Errors
    /// The system does not let the process become that user.
    pub(crate) fn give_away(&mut self, ports: &[Port]) -> Result<()> {
        if self.dropped {
            return Ok(());
        }
        if let Some(group) = self.group {
            privilege::join(group)?;
        }
        if self.keep || !(privilege::is_privileged() || self.user.is_some()) {
            return Ok(());
        }
        let has_maps = ports.iter().any(|port| port.info().backend == Backend::Xdp);
        let keep = if has_maps { privilege::for_maps() } else { Set::EMPTY };
        privilege::drop_all(self.user.take().or_else(privilege::sudo_user), self.group, keep)?;
        self.dropped = true;
        Ok(())
    }

    /// Whether they have been given away.
    pub(crate) fn are_dropped(&self) -> bool {
        self.dropped
    }

    /// Adds what dropped privileges may have to do with a refusal.
    pub(crate) fn explain(&self, error: Error) -> Error {
        // EACCES (13) or EPERM (1): what the user can do as root, the process no longer can.
        if self.dropped && matches!(error.errno(), Some(1 | 13)) {
            return error.help(
                "the command had dropped its privileges by then; write where the user may, choose \
                 another with --user, or add --keep-privileges",
            );
        }
        error
    }
}

/// Says which packets are looked at, as [`announce`] does; of a file, `reading NAME`.
pub(crate) fn announce_input(doing: &str, info: &PortInfo, verbose: bool) {
    let doing = if info.backend == Backend::File { "reading" } else { doing };
    announce(doing, info, verbose);
}

/// Says how a port was opened: `doing PORT, MODE, queues`, and of a file only its name. If
/// `verbose`, also says which other ways were refused.
pub(crate) fn announce(doing: &str, info: &PortInfo, verbose: bool) {
    if info.backend == Backend::File {
        let name = info.spec.strip_prefix("file:").unwrap_or(&info.spec);
        let name = match (name, doing) {
            ("-", "reading" | "forwarding from") => "standard input",
            ("-", _) => "standard output",
            _ => name,
        };
        return output::line(format_args!("{doing} {}", printable(name)));
    }
    let refused = |attempt: &&Attempt| attempt.outcome == Outcome::Refused;
    for attempt in info.negotiation.iter().filter(refused).filter(|_| verbose) {
        let cause = attempt.cause.as_deref().unwrap_or("no cause given");
        let fix = attempt.fix.as_deref().map(|fix| format!("; {fix}")).unwrap_or_default();
        let text = format!("{} refused: {cause}{fix}", attempt.way);
        output::line(format_args!("{}", printable(&text)));
    }
    let queues: QueueSet = info.queues.iter().map(|queue| usize::from(*queue)).collect();
    let hardware = info.hardware.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    // The name of a file and its content may contain any text, even line ends.
    let text = format!("{doing} {}{hardware}, {}, queues {queues}", info.spec, info.mode);
    output::line(format_args!("{}", printable(&text)));
    tx_queues(info).iter().for_each(|text| output::line(format_args!("{text}")));
}

/// From which CPUs packets leave by which TX queue, where that is a question:
/// `TX queues of eth0: 0 from CPU 0, 1 from CPU 1 (XPS)`.
fn tx_queues(info: &PortInfo) -> Option<String> {
    let name = info.interface.as_ref()?;
    let way = info.tx_queues.first()?.way;
    match way {
        TxWay::Exact | TxWay::Only => return None,
        TxWay::Flow | TxWay::Device => return Some(format!("TX queues of {name}: {way}")),
        _ => {}
    }
    let queue = |TxBinding { queue, cpu, kept, .. }: &TxBinding| {
        let cpu = (*cpu)?;
        Some(match kept {
            true => format!("{queue} from CPU {cpu}"),
            false => format!("{queue} not kept"),
        })
    };
    // Those that a thread sends through.
    let queues: Vec<_> = info.tx_queues.iter().filter_map(queue).collect();
    Some(match queues.as_slice() {
        [] => format!("TX queues of {name}: those of the CPUs that send ({way})"),
        queues => format!("TX queues of {name}: {} ({way})", queues.join(", ")),
    })
}

/// The signals that end the command, from now on ([`Halt::by_signals`]). The time that it may take
/// bounds what is waited for before it has begun, too.
///
/// # Errors
/// The system refuses.
pub(crate) fn begin(args: &SessionArgs) -> Result<Halt> {
    let halt = Halt::by_signals().map_err(|error| Error::os("signals", error))?;
    halt.limit(args.duration);
    Ok(halt)
}

/// Whether live figures may be on the screen.
pub(crate) enum Screen<'a> {
    /// They may, with how large this file grows.
    Free(Option<&'a Path>),
    /// Packets are there.
    Taken,
}

/// Waits for the end: a signal, the time, or the session itself. Tells how far it is whenever
/// SIGUSR1 asks.
///
/// `wait` waits for so long at most, and says whether the session has ended.
pub(crate) fn watch(
    monitor: &Monitor,
    wait: impl Fn(Duration) -> bool,
    args: &SessionArgs,
    halt: &Halt,
    started: Instant,
    screen: Screen<'_>,
) {
    let mut progress = match screen {
        Screen::Free(file) if !args.quiet => {
            progress(monitor, started).map(|progress| progress.into_file(file))
        }
        _ => None,
    };
    let pace = progress.as_ref().map_or(PAUSE, |_| FRAME);
    attend(wait, args, (halt, pace), started, |moment| match (moment, &mut progress) {
        (Moment::Asked, _) => {
            headline::print_so_far(monitor.read(), started.elapsed().as_secs_f64());
        }
        (Moment::Passed, Some(progress)) => progress.update(monitor.read(), []),
        (Moment::Passed, None) => {}
    });
    if let Some(progress) = progress {
        progress.finish();
    }
}

/// What happens while a session runs.
pub(crate) enum Moment {
    /// SIGUSR1 has asked for a report.
    Asked,
    /// Some time has passed.
    Passed,
}

/// How often to look, unless a signal comes: for the screen, and without it.
pub(crate) const FRAME: Duration = Duration::from_millis(100);
pub(crate) const PAUSE: Duration = Duration::from_millis(500);

/// As [`watch`]; what happens meanwhile, `tell` tells, about every `pace`.
pub(crate) fn attend(
    wait: impl Fn(Duration) -> bool,
    args: &SessionArgs,
    (halt, pace): (&Halt, Duration),
    started: Instant,
    mut tell: impl FnMut(Moment),
) {
    // It has begun: its own time counts.
    halt.limit(None);
    let mut reports = 0;
    while !halt.is_asked() {
        let asked = Halt::reports();
        if std::mem::replace(&mut reports, asked) != asked {
            tell(Moment::Asked);
        }
        let mut pause = pace;
        if let Some(duration) = args.duration {
            let left = duration.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            pause = pause.min(left);
        }
        if wait(pause) {
            break;
        }
        tell(Moment::Passed);
    }
}

/// Lines for a terminal, if there is one.
pub(crate) fn progress(monitor: &Monitor, started: Instant) -> Option<Progress> {
    Progress::new(started, PortInfo::names(monitor.ports()), monitor.read())
}

/// Reports how it ended, on the terminal (`verbose`: all of it) and as JSON. Prints all errors but
/// the first, which it returns. A reader that went away is none.
///
/// # Errors
/// The first of them, or standard output does not take the JSON object.
pub(crate) fn conclude(
    summary: &Summary,
    args: &SessionArgs,
    errors: Vec<Error>,
    privileges: &Privileges,
    verbose: bool,
) -> Result<()> {
    if !args.quiet {
        Report { summary, verbose }.print();
    }
    if args.json {
        output::json(summary)?;
    }
    let mut errors = errors.into_iter().filter(|error| error.kind() != ErrorKind::BrokenPipe);
    let Some(first) = errors.next() else { return Ok(()) };
    errors.for_each(|error| output::line(format_args!("wirelane: {error}")));
    Err(privileges.explain(first))
}
