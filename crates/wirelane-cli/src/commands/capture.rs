//! `wirelane capture`: every selected queue in parallel, counted or written.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wirelane::capture::live::{Capture, CaptureConfig, OutputConfig};
use wirelane::capture::{Rotation, WriterOptions};
use wirelane::mask::MAX_QUEUES;
use wirelane::placement::Placement;
use wirelane::port::{self, Backend, OpenOptions, PortInfo, Spec};
use wirelane::privilege::{self, User};
use wirelane::{Error, ErrorKind, QueueMask, QueueSet, Result, clock};

use crate::args::{self, Masks};
use crate::control::ControlServer;
use crate::output::{self, progress::Progress, summary::Summary};

/// Capture packets from all selected queues in parallel.
///
/// Each queue has its own socket, ring and thread. With -w packets go to one time-ordered pcapng
/// file with an interface description per queue, or to one file per queue with --split; without,
/// they are only counted. ^C ends the capture with a summary.
#[derive(Args, Clone, Debug)]
pub(crate) struct CaptureArgs {
    /// What to capture from, such as eth0, packet:eth0@0-3 or sim:4?rate=1Mpps
    #[arg(value_name = "PORT")]
    port: String,
    #[command(flatten)]
    masks: Masks,
    /// Write packets to this file; - is standard output; .pcap, .gz and .zst do what they say
    #[arg(short = 'w', long = "write", value_name = "FILE", help_heading = "Output")]
    write: Option<PathBuf>,
    /// One file per queue: NAME.rx0.pcapng and so on; `wirelane merge` joins them
    #[arg(long, requires = "write", help_heading = "Output")]
    split: bool,
    /// Begin a new file before one grows beyond SIZE bytes (k, M, G: units of 1024)
    #[arg(short = 'C', long, value_name = "SIZE", value_parser = args::size, requires = "write", help_heading = "Output")]
    rotate_size: Option<u64>,
    /// Begin a new file every TIME (10s, 2m, 1h)
    #[arg(short = 'G', long, value_name = "TIME", value_parser = args::duration, requires = "write", help_heading = "Output")]
    rotate_time: Option<Duration>,
    /// Begin a new file after N packets
    #[arg(long, value_name = "N", value_parser = args::count, requires = "write", help_heading = "Output")]
    rotate_packets: Option<u64>,
    /// Keep the newest N files of a rotation
    #[arg(short = 'W', long, value_name = "N", requires = "write", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Output")]
    rotate_files: Option<u32>,
    /// Write counters into the file this often, beside the end
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "10s", help_heading = "Output")]
    statistics_every: Duration,
    /// Print one JSON object (schema wirelane.summary/1) on standard output at the end
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// No progress and no summary
    #[arg(short = 'q', long, help_heading = "Output")]
    quiet: bool,
    /// End after N packets (k, M, G: units of 1000)
    #[arg(short = 'c', long, value_name = "N", value_parser = args::count, help_heading = "Limits")]
    count: Option<u64>,
    /// End after TIME (10s, 500ms, 2m)
    #[arg(long, value_name = "TIME", value_parser = args::duration, help_heading = "Limits")]
    duration: Option<Duration>,
    /// Keep at most N bytes of each packet
    #[arg(short = 's', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=262_144), default_value_t = OpenOptions::MAX_SNAPLEN, help_heading = "Limits")]
    snaplen: u32,
    /// Also take packets that are not addressed to this host, until the capture ends
    #[arg(long, help_heading = "Machine")]
    promiscuous: bool,
    /// All queues on one thread
    #[arg(long, help_heading = "Machine")]
    single: bool,
    /// Pin the threads to these CPUs, in turn
    #[arg(long, value_name = "CPUS", value_parser = args::queues, help_heading = "Machine")]
    cpus: Option<QueueSet>,
    /// Receive ring per queue, in bytes
    #[arg(long, value_name = "SIZE", value_parser = args::size, help_heading = "Machine")]
    ring: Option<u64>,
    /// Memory between the receiving threads and the writer, in bytes
    #[arg(long, value_name = "SIZE", value_parser = args::size, default_value = "64M", help_heading = "Machine")]
    buffer: u64,
    /// Become this user (a name or UID:GID) once the port is open; the caller of sudo by default
    #[arg(short = 'Z', long, value_name = "USER", help_heading = "Machine")]
    user: Option<String>,
    /// Do not give privileges away
    #[arg(long, conflicts_with = "user", help_heading = "Machine")]
    keep_privileges: bool,
}

/// Runs the command.
///
/// # Errors
/// Everything that keeps the capture from starting, or the first thing that ended it early; what
/// was captured before is in the file.
pub(crate) fn run(args: &CaptureArgs) -> Result<()> {
    if args.json && args.write.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Error::usage("--json", "standard output already takes the packets of -w -")
            .help("write the packets to a file"));
    }
    let spec: Spec = args.port.parse()?;
    if let Some(path) = args.write.as_ref().filter(|path| is_input(&spec, path)) {
        let error = Error::usage(path.display().to_string(), "it is the file to be read");
        return Err(error.help("write to another file"));
    }
    let config = config(args)?;
    let signals = Signals::register()?;
    let user = args.user.as_deref().map(privilege::find_user).transpose()?;
    let port = port::open(&spec, &open_options(args)?)?;
    let dropped = drop_privileges(args, user)?;
    let capture = Capture::start(port, &config).map_err(|error| explain(error, dropped))?;
    let started = Instant::now();
    if !args.quiet {
        announce(capture.info());
    }
    let control = ControlServer::start(capture.control(), capture.info().queues.len());
    if let Err(error) = &control {
        output::line(format_args!("note: masks cannot be changed while this runs: {error}"));
    }
    watch(&capture, args, &signals, started);
    let mut outcome = capture.join();
    drop(control);
    let summary = Summary::of_capture(&outcome, started.elapsed(), clock::process_cpu());
    if !args.quiet {
        summary.print();
    }
    if args.json {
        output::json(&summary)?;
    }
    outcome.errors.retain(|error| error.kind() != ErrorKind::BrokenPipe);
    let mut errors = outcome.errors.into_iter();
    match errors.next() {
        None => Ok(()),
        Some(first) => {
            errors.for_each(|error| output::line(format_args!("wirelane: {error}")));
            Err(explain(first, dropped))
        }
    }
}

/// Whether `path` is the file that `spec` reads.
fn is_input(spec: &Spec, path: &Path) -> bool {
    let identity = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    let input = identity(Path::new(&spec.name));
    spec.backend == Some(Backend::File) && input.is_some() && input == identity(path)
}

fn open_options(args: &CaptureArgs) -> Result<OpenOptions> {
    let ring = args.ring.map(usize::try_from).transpose();
    Ok(OpenOptions {
        mask: QueueMask {
            enabled: true,
            rx: args.masks.rx_queues.clone(),
            tx: args.masks.tx_queues.clone(),
            other: args.masks.other,
        },
        receive: true,
        transmit: false,
        snaplen: args.snaplen,
        promiscuous: args.promiscuous,
        placement: placement(args)?,
        ring_bytes: ring
            .map_err(|_| Error::usage("--ring", "more than this machine can address"))?,
    })
}

/// The CPUs of the queues.
fn placement(args: &CaptureArgs) -> Result<Placement> {
    let placement = match &args.cpus {
        None | Some(QueueSet::All) => Placement::default(),
        Some(list) => {
            let cpus: Vec<_> = list.members(MAX_QUEUES).map(|cpu| cpu as u32).collect();
            Placement::of(&cpus)?
        }
    };
    Ok(if args.single { placement.on_one() } else { placement })
}

fn config(args: &CaptureArgs) -> Result<CaptureConfig> {
    let rotation = Rotation {
        max_bytes: args.rotate_size,
        max_age: args.rotate_time.map(|time| time.as_nanos() as u64),
        max_packets: args.rotate_packets,
        max_files: args.rotate_files,
    };
    if rotation.max_files.is_some() && !rotation.is_active() {
        return Err(Error::usage("-W", "there is no rotation whose files could be counted")
            .help("add -C, -G or --rotate-packets"));
    }
    if rotation.is_active() && args.write.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        return Err(Error::usage("-w -", "standard output cannot be rotated")
            .help("give a file name, or leave -C, -G and --rotate-packets out"));
    }
    let output = args.write.as_ref().map(|path| OutputConfig {
        path: path.clone(),
        options: WriterOptions { rotation, ..WriterOptions::of_path(path) },
        split: args.split,
    });
    Ok(CaptureConfig {
        output,
        single: args.single,
        placement: placement(args)?,
        packets: args.count,
        buffer: usize::try_from(args.buffer).unwrap_or(usize::MAX),
        statistics_every: args.statistics_every,
    })
}

/// Says how the port was opened, and what else was tried.
fn announce(info: &PortInfo) {
    for rung in info.negotiation.iter().filter(|rung| rung.outcome == "refused") {
        let cause = rung.cause.as_deref().unwrap_or("no cause given");
        let fix = rung.fix.as_deref().map(|fix| format!("; {fix}")).unwrap_or_default();
        output::line(format_args!("{} refused: {cause}{fix}", rung.rung));
    }
    let queues: QueueSet = info.queues.iter().map(|queue| usize::from(*queue)).collect();
    let hardware = info.hardware.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    output::line(format_args!(
        "capturing on {}{hardware}, {}, queues {queues}",
        info.spec, info.mode
    ));
}

/// Gives privileges away before anything is received or created. True if there were any.
fn drop_privileges(args: &CaptureArgs, user: Option<User>) -> Result<bool> {
    let had_any = privilege::is_privileged();
    if args.keep_privileges || !(had_any || args.user.is_some()) {
        return Ok(false);
    }
    privilege::drop_all(user.or_else(privilege::sudo_user))?;
    Ok(true)
}

/// Adds what dropped privileges may have to do with a refusal.
fn explain(error: Error, dropped: bool) -> Error {
    // EACCES (13) or EPERM (1): what the user can do as root, the capture no longer can.
    if dropped && matches!(error.errno(), Some(1 | 13)) {
        return error.help(
            "the capture gave its privileges away before it opened this; write where the user \
             may, choose one with --user, or add --keep-privileges",
        );
    }
    error
}

/// Waits for the end: a signal, the time, or the capture itself.
fn watch(capture: &Capture, args: &CaptureArgs, signals: &Signals, started: Instant) {
    let mut progress = if args.quiet { None } else { Progress::new(capture.queues()) };
    while !signals.stop() {
        let mut pause = Duration::from_millis(50);
        if let Some(duration) = args.duration {
            let left = duration.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            pause = pause.min(left);
        }
        if capture.wait(pause) {
            break;
        }
        if let Some(progress) = &mut progress {
            progress.update(capture.queues());
        }
    }
    if let Some(progress) = progress {
        progress.finish();
    }
}

/// ^C, SIGTERM and SIGHUP end the capture; a second one ends it at once.
struct Signals(Arc<AtomicBool>);

impl Signals {
    fn register() -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let failed = |error| Error::io("signals", "sigaction", error);
            // The order makes the second signal fatal: it finds the flag that the first one set.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
                .map_err(failed)?;
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(failed)?;
        }
        Ok(Self(stop))
    }

    fn stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
