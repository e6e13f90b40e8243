//! `wirelane bench`: measures on this machine, in the process and, as root, in a lab of its own.

mod all;
mod compare;
mod estimate;

use std::io::{self, IsTerminal, Write as _};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use wirelane::mask::MAX_QUEUES;
use wirelane::placement::Placement;
use wirelane::{Error, QueueSet, Result};
use wirelane_bench::control::Controller;
use wirelane_bench::peers::{self, cost, replay, write};
use wirelane_bench::report::Report;
use wirelane_bench::sockets::{self, Kind};
use wirelane_bench::suite::{self, Plan};
use wirelane_bench::{capture, filter, gso, noloss, scaling};

use crate::args;
use crate::output::{self, figures};
use crate::session::Signals;

/// Measure what packets cost on this machine.
#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Suite {
    All(all::AllArgs),
    Capture(CaptureArgs),
    Compare(compare::CompareArgs),
    Filter(FilterArgs),
    Gso(GsoArgs),
    Noloss(NolossArgs),
    Qdisc(QdiscArgs),
    Scaling(ScalingArgs),
    Sockets(SocketsArgs),
}

/// How thoroughly to measure, and how to say it: the same for every suite.
#[derive(Args, Clone, Debug)]
struct Effort {
    /// Take less than a minute instead of several; the figures vary more
    #[arg(long)]
    quick: bool,
    /// Print one JSON object (schema wirelane.bench/1) instead of tables
    #[arg(long)]
    json: bool,
    /// Measure every figure N times instead of 5 or 7 times, with --quick 3 or 5
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    samples: Option<u32>,
}

impl Effort {
    /// As often as was asked for, or else as the suite does by itself.
    fn samples(&self, usual: usize) -> usize {
        self.samples.map_or(usual, |samples| samples as usize)
    }
}

/// Measure queueing disciplines with 1 to 8 producers, rings between two cores, and a lock.
///
/// Producers send frames of 64 and 1500 bytes in batches through noqueue, fifo, bulk and lockless
/// to a simulated interface that counts and frees them. Locks and spoiled compare-and-swaps per
/// packet are counted by the disciplines. Beside the figures stand those of "Qdisc layer: fast
/// enough for 10G wirespeed?" (2014), and of DPDK's rte_ring where dpdk-test is installed
/// (Debian: dpdk-dev). All CPUs are in use meanwhile: leave the machine alone.
#[derive(Args, Clone, Debug)]
pub(crate) struct QdiscArgs {
    #[command(flatten)]
    effort: Effort,
}

/// Measure receiving, sending and forwarding through each kind of port, as "AF_XDP, zero-copy
/// support" (2018) did.
///
/// rxdrop receives and drops, txpush fills frames and sends them, l2fwd receives, exchanges the
/// addresses and sends back through the same queue: a thread per queue, each on a CPU of its own.
/// Simulated ports need no privilege. As root, real ones are measured too, on a pair of interfaces
/// in two network namespaces that are made for it and end with it; a sender inside the kernel has the
/// first CPU then. Ports named with --port are measured as they are: rxdrop and l2fwd see what others
/// send to them.
#[derive(Args, Clone, Debug)]
pub(crate) struct SocketsArgs {
    /// Measure this port instead; may be given several times
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<String>,
    /// Let a port that is named with --port take all packets away from the host (xdp:)
    #[arg(long, requires = "ports")]
    all: bool,
    /// Measure this case only; may be given several times
    #[arg(long = "case", value_name = "CASE", value_enum)]
    cases: Vec<Case>,
    /// Bytes of a packet without frame check sequence, 60 to 9216; may be given several times
    #[arg(long = "size", value_name = "BYTES", default_values_t = sockets::Plan::SIZES.map(|size| size as u32),
          value_parser = clap::value_parser!(u32).range(60..=9216))]
    sizes: Vec<u32>,
    /// How long a sample counts: 1s by default, 100ms with --quick
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
    /// Send N packets per second to the ports instead of as many as possible (k, M, G)
    #[arg(long, value_name = "N", value_parser = args::count, conflicts_with = "ports")]
    rate: Option<u64>,
    /// Pin the threads to these CPUs, in turn
    #[arg(long, value_name = "CPUS", value_parser = args::queues)]
    cpus: Option<QueueSet>,
    #[command(flatten)]
    effort: Effort,
}

/// Measure filters: machine code, the interpreter, libpcap's interpreter, and the kernel.
///
/// Each runs the same two expressions, a port with a host and a chain of 50 hosts, over frames of 64
/// bytes of which all, a quarter or none match. libpcap compiles the expressions and is needed; the
/// kernel takes root, and its figure, a whole number of nanoseconds, has the cost of its test run.
#[derive(Args, Clone, Debug)]
pub(crate) struct FilterArgs {
    #[command(flatten)]
    effort: Effort,
}

/// Measure segmentation by the kernel's offload, by Wirelane and by none, as "GSO for FreeBSD" (2014) did.
///
/// TCP, and UDP in datagrams of 9 KB, go over IPv4 and IPv6 from one network namespace to another, both
/// made for it and gone with it, through a TAP device, a forwarder and a pair of interfaces: all on one CPU,
/// of which a cgroup leaves 100, 86, 68, 50, 36 and 15 percent (with --quick 100, 50 and 15) in place of the
/// source's clock frequencies.
/// Offload "kernel" has no TAP device and no Wirelane; with "wirelane" it cuts long frames, with "device" it
/// leaves them to a device that takes them, with "partial" to the kernel just before the device; "none" is the
/// kernel's own software just before the TAP device; "stack" lets TCP make every segment itself, which is what
/// the source compares with. Cases gro- go the other way, where the packets of a wire are merged or not. Beside
/// the rate stand the CPU time per gigabyte, the speed-up of "wirelane" over "none" and "stack", and the
/// segmenter alone. It needs root.
#[derive(Args, Clone, Debug)]
pub(crate) struct GsoArgs {
    /// Measure this case only; may be given several times
    #[arg(long = "case", value_name = "CASE", value_parser = gso::Plan::CASES)]
    cases: Vec<String>,
    /// Measure this offload only; may be given several times
    #[arg(long = "offload", value_name = "OFFLOAD", value_parser = gso::Plan::OFFLOADS)]
    offloads: Vec<String>,
    /// The kind of port at the wire
    #[arg(long, value_name = "PORT", default_value = "packet", value_parser = ["packet", "xdp"])]
    port: String,
    /// Leave this share of a CPU, in percent, instead of those; may be given several times
    #[arg(long = "cpu", value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(5..=100))]
    shares: Vec<u64>,
    /// How long a sample counts: 500ms by default, 100ms with --quick
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
    #[command(flatten)]
    effort: Effort,
}

/// Measure capturing in the six conditions of "Multiqueue support for bpf" (2011): reading, writing to
/// memory and to disk, with copying and without, with one thread and with one per queue.
///
/// The simulated interface needs no privilege. As root, packets pass between two network namespaces that are
/// made for it and end with it. Cycles per packet are split into processing, system calls, both, and the
/// time until a batch's memory was given back.
#[derive(Args, Clone, Debug)]
pub(crate) struct CaptureArgs {
    /// A folder on the disk to write to; without it that condition is left out
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    #[command(flatten)]
    effort: Effort,
}

/// Measure one queue to as many as there are CPUs, each with a thread, on the simulated interface.
///
/// What the Universal Scalability Law makes of it for more CPUs than the machine has stands apart, as
/// rx-projected: a projection, no measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScalingArgs {
    #[command(flatten)]
    effort: Effort,
}

/// Search for the highest rate that each receiver takes without losing a packet, and measure latencies there.
///
/// A rate passes if nothing is lost in three trials (RFC 2544, section 26.1); the search halves the range, from
/// all that the sender can send downwards. Latencies are from the moment that a packet is made to that
/// in which the receiver has it, at the rate that was found and at half of it. The simulated
/// interface needs no privilege; as root, real ones are searched too, in network namespaces of their own, and, without
/// --quick, dpdk-testpmd, tcpdump, dumpcap and netsniff-ng where they are installed: without latencies.
#[derive(Args, Clone, Debug)]
pub(crate) struct NolossArgs {
    /// Bytes of a packet without frame check sequence, 64 to 3000; may be given several times
    #[arg(long = "size", value_name = "BYTES", value_parser = clap::value_parser!(u32).range(64..=3000))]
    sizes: Vec<u32>,
    /// How long a trial sends: 500ms by default, 30ms with --quick
    #[arg(long, value_name = "TIME", value_parser = args::duration)]
    seconds: Option<Duration>,
    #[command(flatten)]
    effort: Effort,
}

/// What is done with packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Receive and drop
    Rxdrop,
    /// Fill frames and send them
    Txpush,
    /// Receive, exchange the addresses, send back
    L2fwd,
    /// Drop in the kernel: a baseline, without --port
    XdpDrop,
}

/// Runs the command.
///
/// # Errors
/// The suite cannot measure, or the answer cannot be written.
pub(crate) fn run(suite: &Suite) -> Result<()> {
    match suite {
        Suite::All(args) => all::run(args),
        Suite::Compare(args) => compare::run(args),
        Suite::Capture(args) => {
            let mut plan =
                if args.effort.quick { capture::Plan::quick() } else { capture::Plan::full() };
            plan.samples = args.effort.samples(plan.samples);
            plan.disk.clone_from(&args.disk);
            measure(args.effort.json, "capture", plan.samples, |report, stop, progress| {
                capture_and_others(&plan, plan.limit, report, stop, progress)
            })
        }
        Suite::Gso(args) => {
            let mut plan = if args.effort.quick { gso::Plan::quick() } else { gso::Plan::full() };
            plan.samples = args.effort.samples(plan.samples);
            plan.window = args.seconds.unwrap_or(plan.window);
            if !args.shares.is_empty() {
                plan.shares.clone_from(&args.shares);
            }
            plan.cases.clone_from(&args.cases);
            plan.offloads.clone_from(&args.offloads);
            plan.port = if args.port == "xdp" { "xdp" } else { "packet" };
            measure(args.effort.json, "gso", plan.samples, |report, stop, progress| {
                gso::gso(&plan, report, stop, progress)
            })
        }
        Suite::Scaling(args) => {
            let mut plan =
                if args.effort.quick { sockets::Plan::quick() } else { sockets::Plan::full() };
            plan.samples = args.effort.samples(plan.samples);
            measure(args.effort.json, "scaling", plan.samples, |report, stop, progress| {
                scaling::scaling(&plan, report, stop, progress)
            })
        }
        Suite::Qdisc(args) => {
            let mut plan = if args.effort.quick { Plan::QUICK } else { Plan::FULL };
            plan.samples = args.effort.samples(plan.samples);
            measure(args.effort.json, "qdisc", plan.samples, |report, stop, progress| {
                suite::qdisc(&plan, report, stop, progress)
            })
        }
        Suite::Filter(args) => {
            let mut plan = if args.effort.quick { Plan::QUICK } else { Plan::FULL };
            plan.samples = args.effort.samples(plan.samples);
            measure(args.effort.json, "filter", plan.samples, |report, stop, progress| {
                filter::filter(&plan, report, stop, progress)
            })
        }
        Suite::Noloss(args) => {
            let mut plan =
                if args.effort.quick { noloss::Plan::quick() } else { noloss::Plan::full() };
            plan.samples = args.effort.samples(plan.samples);
            plan.window = args.seconds.unwrap_or(plan.window);
            if !args.sizes.is_empty() {
                plan.sizes = args.sizes.iter().map(|size| *size as usize).collect();
            }
            measure(args.effort.json, "noloss", plan.samples, |report, stop, progress| {
                noloss::noloss(&plan, report, stop, progress)
            })
        }
        Suite::Sockets(args) => {
            let plan = args.plan()?;
            measure(args.effort.json, "sockets", plan.samples, |report, stop, progress| {
                sockets::sockets(&plan, report, stop, progress)?;
                if !args.is_everything() {
                    return Ok(());
                }
                sockets_beside_others(&plan, plan.limit, report, stop, progress)
            })
        }
    }
}

impl SocketsArgs {
    /// Whether nothing was said about what to measure.
    fn is_everything(&self) -> bool {
        self.ports.is_empty() && self.cases.is_empty()
    }

    fn plan(&self) -> Result<sockets::Plan> {
        let default =
            if self.effort.quick { sockets::Plan::quick() } else { sockets::Plan::full() };
        let named = |case| self.cases.is_empty() || self.cases.contains(&case);
        let kinds = [
            (Case::Rxdrop, Kind::Rxdrop),
            (Case::Txpush, Kind::Txpush),
            (Case::L2fwd, Kind::L2fwd),
        ];
        if !self.ports.is_empty() && self.cases.contains(&Case::XdpDrop) {
            let error = Error::usage("case 'xdp-drop'", "it is no case of a port");
            return Err(error.help("leave --port out"));
        }
        let cpus = self.cpus.as_ref().filter(|cpus| **cpus != QueueSet::All);
        let placement = cpus.map(|cpus| {
            let cpus: Vec<_> = cpus.members(MAX_QUEUES).map(|cpu| cpu as u32).collect();
            Placement::of(&cpus)
        });
        Ok(sockets::Plan {
            ports: self.ports.iter().map(|port| port.parse()).collect::<Result<_>>()?,
            kinds: kinds.iter().filter(|(case, _)| named(*case)).map(|(_, kind)| *kind).collect(),
            xdp_drop: named(Case::XdpDrop),
            sizes: self.sizes.iter().map(|size| *size as usize).collect(),
            samples: self.effort.samples(default.samples),
            window: self.seconds.unwrap_or(default.window),
            limit: default.limit,
            take_all: self.all,
            rate: self.rate,
            peers: self.ports.is_empty(),
            placement: placement.transpose()?,
        })
    }
}

/// What a suite is given to say what it measures.
type Tell<'a> = &'a mut dyn FnMut(u32, &str);

/// `capture` within a time, and the parts of it in which our command runs as a process, beside other programs.
fn capture_and_others(
    plan: &capture::Plan,
    limit: Option<Duration>,
    report: &mut Report,
    stop: &AtomicBool,
    tell: Tell<'_>,
) -> Result<()> {
    let (own, begin) = (own()?, Instant::now());
    capture::capture(
        &capture::Plan { limit: share(limit, 0.4), ..plan.clone() },
        report,
        stop,
        tell,
    )?;
    let limit = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
    let begin = Instant::now();
    let (samples, window) = (plan.samples, 3 * plan.window);
    // A short run has no time for the disk.
    let disk = plan.disk.as_deref().filter(|_| limit.is_none());
    let plan = peers::Plan { own: &own, samples, window, limit: share(limit, 0.8), disk };
    cost::cost(&plan, report, stop, tell)?;
    let limit = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
    write::write(&peers::Plan { limit, ..plan }, report, stop, tell)
}

/// The same of `sockets`.
fn sockets_beside_others(
    plan: &sockets::Plan,
    limit: Option<Duration>,
    report: &mut Report,
    stop: &AtomicBool,
    tell: Tell<'_>,
) -> Result<()> {
    let own = own()?;
    let (samples, window) = (plan.samples, plan.window);
    let plan = peers::Plan { own: &own, samples, window, limit, disk: None };
    replay::replay(&plan, report, stop, tell)
}

/// Our own command.
fn own() -> Result<PathBuf> {
    std::env::current_exe().map_err(|error| Error::io("wirelane", "find", error))
}

/// A part of a time, if there is one.
fn share(time: Option<Duration>, part: f64) -> Option<Duration> {
    time.map(|time| time.mul_f64(part))
}

/// What is about to be measured.
#[derive(Clone, Copy, Debug)]
struct Step<'a> {
    suite: &'static str,
    round: u32,
    /// For people.
    text: &'a str,
}

/// Runs a suite and prints what it measured.
fn measure(
    json: bool,
    name: &'static str,
    rounds: usize,
    suite: impl FnOnce(&mut Report, &AtomicBool, Tell<'_>) -> Result<()>,
) -> Result<()> {
    let report = collect(|report, stop, tell| {
        let mut tell = |round: u32, what: &str| {
            let text = format!("round {round} of {rounds}: {what}");
            tell(Step { suite: name, round, text: &text });
        };
        suite(report, stop, &mut tell)
    })?;
    if json {
        return output::json(&report);
    }
    let mut out = io::stdout().lock();
    write!(out, "{}", figures::Tables(&report))
        .and_then(|()| out.flush())
        .map_err(|error| Error::io("standard output", "write", error))
}

/// A report that `fill` adds to, until a signal comes; what it says meanwhile stands on a terminal. Between
/// its steps, when nothing else of ours runs, the machine is looked at.
fn collect(
    fill: impl FnOnce(&mut Report, &AtomicBool, &mut dyn FnMut(Step<'_>)) -> Result<()>,
) -> Result<Report> {
    let signals = Signals::register()?;
    let mut report = Report::new(command_line());
    report.environment.revision = option_env!("WIRELANE_REVISION").map(str::to_owned);
    let bar = progress_bar();
    let mut controller = Controller::default();
    let mut tell = |step: Step<'_>| {
        if let Some(bar) = &bar {
            bar.set_message(step.text.to_owned());
            bar.tick();
        }
        controller.read(step.suite, step.round);
    };
    let outcome = fill(&mut report, signals.flag(), &mut tell);
    report.control = controller.finish();
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    report.finish();
    outcome.map(|()| report)
}

/// What the user typed, with the name of the program in place of its path.
fn command_line() -> String {
    let arguments = std::env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once("wirelane".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// One line that changes, on a terminal only.
fn progress_bar() -> Option<ProgressBar> {
    let style = ProgressStyle::with_template("[{elapsed_precise}] {wide_msg}").ok()?;
    io::stderr().is_terminal().then(|| ProgressBar::new_spinner().with_style(style))
}
