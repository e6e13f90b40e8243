//! AF_XDP beside dpdk-testpmd, on the same veth pair and the same CPUs, in turns.
//!
//! ```text
//!   CPU 0: live frames ─▶ near ═══ far ─▶ AF_XDP ─▶ the program: rxdrop, l2fwd       CPU 1
//!                         near ◀══ far ◀─ AF_XDP ◀─ the program: txpush, l2fwd
//! ```
//!
//! The sender makes its frames inside the kernel, and pays for the receive path up to the socket's
//! ring, whoever listens. What is sent is counted by the interface at the near end; what is received,
//! by the program. CPU time is that of the whole process.

mod programs;
mod swap;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wirelane_bench::peers::testpmd::PACKAGE;
use wirelane_bench::task::Task;
use wirelane_lab::live::{LiveSender, Pace, Sent};
use wirelane_os::{bpf, clock, iface};
use wirelane_testkit::netns::Namespace;
use wirelane_testkit::packets;
use wirelane_testkit::process::ChildGuard;
use wirelane_testkit::veth::VethPair;

use self::programs::{PROGRAMS, Place, Program};
use super::process::{on_cpus, two_cpus};
use super::report::{Report, Row, Target};
use super::{Case, Context, Result};

pub(super) const CASES: [Case; 6] = [
    Case { name: "rxdrop", about: "receiving all that can be sent", run: rxdrop },
    Case { name: "noloss", about: "what is lost at which rate", run: noloss },
    Case { name: "idle", about: "CPU time of receiving 0.5 Mpps", run: idle },
    Case { name: "txpush", about: "sending", run: txpush },
    Case { name: "l2fwd", about: "swapping addresses and sending back", run: l2fwd },
    Case {
        name: "macswap",
        about: "the same in the process, without an interface",
        run: swap::run,
    },
];

const LIMIT: Duration = Duration::from_secs(20);
/// From the moment that an XDP program is attached until whoever did it receives, and counts: what came before
/// would be taken for lost.
const SETTLE: Duration = Duration::from_millis(700);
const DRAIN: Duration = Duration::from_millis(300);
const SIZE: usize = 64;

/// What one run of one program took and did.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// Packets per second.
    rate: f64,
    /// Packets per second that were sent to it.
    offered: f64,
    /// Of what was sent to it.
    lost: f64,
    /// CPU time of the process per packet, in nanoseconds.
    cpu: f64,
    /// CPU time of the sender per packet that it sent: it pays for the way to the ring of the receiver,
    /// and for waking it up.
    sender: f64,
}

/// A task under a condition.
struct Condition {
    task: Task,
    /// Of the sender; as fast as it can if `None`.
    per_second: Option<u64>,
}

fn rxdrop(context: &Context, report: &mut Report) -> Result<()> {
    let condition = Condition { task: Task::Rxdrop, per_second: None };
    let Some(samples) = compare(context, report, "rxdrop", &condition)? else { return Ok(()) };
    let rate = |sample: &Sample| sample.rate;
    let params = condition.params();
    ratio(report, "rxdrop", &params, "rate_ratio", &samples, rate, Target::AtLeast(1.0));
    lost_beside(report, "rxdrop", &params, &samples);
    Ok(())
}

/// Offered packets per second. More than the sender can make is what it can make.
const RATES: [u64; 5] = [500_000, 1_000_000, 1_500_000, 2_000_000, 3_000_000];

fn noloss(context: &Context, report: &mut Report) -> Result<()> {
    for rate in RATES {
        let condition = Condition { task: Task::Rxdrop, per_second: Some(rate) };
        let Some(samples) = compare(context, report, "noloss", &condition)? else { return Ok(()) };
        lost_beside(report, "noloss", &condition.params(), &samples);
    }
    Ok(())
}

/// Adds what we lost in the rounds in which the peer lost nothing.
fn lost_beside(report: &mut Report, case: &'static str, params: &Value, [ours, theirs]: &Pair) {
    let both = ours.iter().zip(theirs).filter(|(_, theirs)| theirs.lost == 0.0);
    let lost: Vec<_> = both.map(|(ours, _)| ours.lost).collect();
    if lost.is_empty() {
        let at = params.get("offered").map_or_else(String::new, |rate| format!(" at {rate}/s"));
        report.skip(case, format!("the peer lost packets in every round{at}"));
        return;
    }
    let (metric, target) = ("lost_share_where_peer_loses_none", Some(Target::AtMost(0.0)));
    report.add(row(case, None, params, metric, "", lost, target));
}

fn idle(context: &Context, report: &mut Report) -> Result<()> {
    let condition = Condition { task: Task::Rxdrop, per_second: Some(500_000) };
    let Some(samples) = compare(context, report, "idle", &condition)? else { return Ok(()) };
    let params = condition.params();
    let cpu = |sample: &Sample| sample.cpu;
    ratio(report, "idle", &params, "cpu_ratio", &samples, cpu, Target::AtMost(0.6));
    Ok(())
}

fn txpush(context: &Context, report: &mut Report) -> Result<()> {
    let condition = Condition { task: Task::Txpush, per_second: None };
    let Some(samples) = compare(context, report, "txpush", &condition)? else { return Ok(()) };
    let params = condition.params();
    let rate = |sample: &Sample| sample.rate;
    ratio(report, "txpush", &params, "rate_ratio", &samples, rate, Target::AtLeast(1.0));
    let [_, theirs] = samples;
    let mut live = Vec::new();
    for _ in 0..theirs.len() {
        live.push(live_frames(context)?);
    }
    let live_params = json!({ "port": "live-frames", "size": SIZE, "queues": 1 });
    let rates = live.iter().map(|sample| sample.rate).collect();
    report.add(row("txpush", None, &live_params, "packets_per_s", "1/s", rates, None));
    let samples = [live, theirs];
    ratio(report, "txpush", &live_params, "rate_ratio", &samples, rate, Target::AtLeast(1.5));
    Ok(())
}

fn l2fwd(context: &Context, report: &mut Report) -> Result<()> {
    let condition = Condition { task: Task::L2fwd, per_second: None };
    let Some(samples) = compare(context, report, "l2fwd", &condition)? else { return Ok(()) };
    let rate = |sample: &Sample| sample.rate;
    let params = condition.params();
    ratio(report, "l2fwd", &params, "rate_ratio", &samples, rate, Target::AtLeast(1.0));
    Ok(())
}

/// Ours and the peer's, by round.
type Pair = [Vec<Sample>; 2];

/// Measures both programs in turn, and adds what they did. `None` if there is nobody to compare with.
fn compare(
    context: &Context,
    report: &mut Report,
    case: &'static str,
    condition: &Condition,
) -> Result<Option<Pair>> {
    if !rustix::process::geteuid().is_root() {
        report.skip(case, "needs root, for network namespaces");
        return Ok(None);
    }
    let place = Place { interface: "", cpu: 0, seconds: 1, size: SIZE };
    if PROGRAMS.iter().any(|program| program.command(context, condition.task, &place).is_none()) {
        report.skip(case, format!("dpdk-testpmd is missing; Debian package {PACKAGE}"));
        return Ok(None);
    }
    let mut samples: Pair = [Vec::new(), Vec::new()];
    for round in 0..context.rounds() {
        // Another one begins each round, so that none is always the first.
        for turn in 0..PROGRAMS.len() {
            let i = (round + turn) % PROGRAMS.len();
            let sample = condition.sample(context, &PROGRAMS[i])?;
            println!(
                "{case:<8} {:<13} {:6.3} Mpps of {:6.3} offered, {:.3} % lost, {:7.1} ns CPU/packet, \
                 sender {:4.0}",
                PROGRAMS[i].name,
                sample.rate / 1e6,
                sample.offered / 1e6,
                sample.lost * 100.0,
                sample.cpu,
                sample.sender,
            );
            samples[i].push(sample);
        }
    }
    let params = condition.params();
    for (program, samples) in PROGRAMS.iter().zip(&samples) {
        let peer = (!program.is_ours()).then_some(program.name);
        let figures = |of: fn(&Sample) -> f64| samples.iter().map(of).collect::<Vec<_>>();
        let mut add = |metric, unit, figures| {
            report.add(row(case, peer, &params, metric, unit, figures, None));
        };
        add("packets_per_s", "1/s", figures(|sample| sample.rate));
        add("cpu_ns_per_packet", "ns", figures(|sample| sample.cpu));
        if condition.task != Task::Txpush {
            add("offered_per_s", "1/s", figures(|sample| sample.offered));
            add("lost_share", "", figures(|sample| sample.lost));
            add("sender_cpu_ns_per_packet", "ns", figures(|sample| sample.sender));
        }
    }
    Ok(Some(samples))
}

fn row(
    case: &'static str,
    peer: Option<&str>,
    params: &Value,
    metric: &'static str,
    unit: &'static str,
    samples: Vec<f64>,
    target: Option<Target>,
) -> Row {
    Row {
        case,
        peer: peer.map(str::to_owned),
        params: params.clone(),
        metric,
        unit,
        samples,
        target,
    }
}

/// Adds ours by theirs, within each round.
fn ratio(
    report: &mut Report,
    case: &'static str,
    params: &Value,
    metric: &'static str,
    [ours, theirs]: &Pair,
    of: fn(&Sample) -> f64,
    target: Target,
) {
    let ratios = ours.iter().zip(theirs).map(|(ours, theirs)| of(ours) / of(theirs)).collect();
    report.add(row(case, None, params, metric, "", ratios, Some(target)));
}

impl Condition {
    fn params(&self) -> Value {
        let mut params = json!({ "port": "xdp", "mode": "native", "size": SIZE, "queues": 1 });
        if let Some(rate) = self.per_second {
            params["offered"] = rate.into();
        }
        params
    }

    /// Runs one program once, in namespaces of its own.
    fn sample(&self, context: &Context, program: &Program) -> Result<Sample> {
        context.proceed()?;
        let [sender, cpu] = two_cpus()?;
        let bed = Bed::new();
        let load = context.load();
        let seconds = load.as_secs() + 3;
        let interface = bed.veth.b.interface.as_str();
        let place = Place { interface, cpu, seconds, size: SIZE };
        let mut command = program
            .command(context, self.task, &place)
            .ok_or_else(|| format!("{} is missing", program.name))?;
        let mut child = on_cpus(&[cpu], || bed.far.inside(|| ChildGuard::spawn(&mut command)))?;
        let is_ready = |child: &ChildGuard| -> Result<bool> {
            // Who only sends needs no program.
            let is_attached = self.task == Task::Txpush || bed.is_attached()?;
            Ok(is_attached && program.ready.is_none_or(|ready| ready(child)))
        };
        let deadline = Instant::now() + LIMIT;
        while !is_ready(&child)? && child.is_running() {
            if Instant::now() >= deadline {
                return Err(format!("{}: not ready after {} s", program.name, LIMIT.as_secs()));
            }
            pause(context, Duration::from_millis(10))?;
        }
        pause(context, SETTLE)?;
        if !child.is_running() {
            let output = child.wait(LIMIT);
            return Err(format!("{}: {} {}", program.name, output.stdout, output.stderr));
        }

        let (counted, used) = (bed.received_near()?, clock::threads_cpu(child.id()));
        let began = Instant::now();
        let mut sample = Sample::default();
        let mut sent = None;
        if self.task == Task::Txpush {
            pause(context, load)?;
        } else {
            sent = Some(bed.send(context, sender, self.per_second, load)?);
        }
        let elapsed = began.elapsed().as_secs_f64();
        let arrived = bed.received_near()? - counted;
        if self.task == Task::Rxdrop {
            pause(context, DRAIN)?;
        }
        let used = clock::threads_cpu(child.id()).saturating_sub(used);
        if !program.ends {
            child.interrupt();
        }
        let output = child.wait(LIMIT);
        let packets = match self.task {
            Task::Rxdrop => (program.received)(&output)?,
            Task::Txpush | Task::L2fwd => arrived,
        };
        sample.rate = packets as f64 / elapsed;
        sample.cpu = used.as_nanos() as f64 / packets.max(1) as f64;
        if let Some(sent) = sent {
            sample.offered = sent.frames as f64 / sent.elapsed.as_secs_f64();
            let used = sent.cpu.total().as_nanos() as f64;
            sample.sender = used / sent.frames.max(1) as f64;
            sample.lost = 1.0 - packets as f64 / sent.frames.max(1) as f64;
        }
        Ok(sample)
    }
}

/// What the sender reaches on its own: the rate at which frames arrive at the far end, which drops them.
fn live_frames(context: &Context) -> Result<Sample> {
    context.proceed()?;
    let [sender, _] = two_cpus()?;
    let bed = Bed::new();
    bed.veth.b.ethtool(&["-K", &bed.veth.b.interface, "gro", "on"]);
    let before = bed.received(&bed.far, &bed.veth.b.interface)?;
    let sent = bed.send(context, sender, None, context.load())?;
    let arrived = bed.received(&bed.far, &bed.veth.b.interface)? - before;
    let elapsed = sent.elapsed.as_secs_f64();
    Ok(Sample { rate: arrived as f64 / elapsed, ..Sample::default() })
}

fn pause(context: &Context, time: Duration) -> Result<()> {
    let until = Instant::now() + time;
    while Instant::now() < until {
        context.proceed()?;
        thread::sleep(
            Duration::from_millis(50).min(until.saturating_duration_since(Instant::now())),
        );
    }
    Ok(())
}

/// Two namespaces and a veth pair with one queue.
struct Bed {
    // Dropped first: it is of the namespaces.
    veth: VethPair,
    near: Namespace,
    far: Namespace,
}

impl Bed {
    fn new() -> Self {
        let (near, far) = (Namespace::new(), Namespace::new());
        let veth = VethPair::new(&near, &far, 1, 1500);
        Self { veth, near, far }
    }

    /// Sends from the near end.
    fn send(
        &self,
        context: &Context,
        cpu: u32,
        per_second: Option<u64>,
        time: Duration,
    ) -> Result<Sent> {
        let stations = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 0x99]);
        let frame = packets::udp4(0).length(SIZE).macs(stations.0, stations.1).build();
        let pace = Pace { count: None, rate: per_second, cpu: Some(cpu) };
        let interface = &self.veth.a.interface;
        let start = || LiveSender::new(interface, &[frame]).and_then(|sender| sender.start(pace));
        let sending = self.near.inside(start).map_err(|error| error.to_string())?;
        let waited = pause(context, time);
        let sent = sending.stop().map_err(|error| error.to_string())?;
        waited.map(|()| sent)
    }

    /// Whether the far interface has an XDP program.
    fn is_attached(&self) -> Result<bool> {
        let attached = || bpf::attached(iface::index(&self.veth.b.interface)?);
        let attached = self.far.inside(attached).map_err(|error| error.to_string())?;
        Ok(attached.is_some())
    }

    /// Packets that the near interface has received.
    fn received_near(&self) -> Result<u64> {
        self.received(&self.near, &self.veth.a.interface)
    }

    fn received(&self, namespace: &Namespace, interface: &str) -> Result<u64> {
        let text = namespace.inside(|| fs::read_to_string("/proc/thread-self/net/dev"));
        let text = text.map_err(|error| format!("cannot read /proc/net/dev: {error}"))?;
        // name: bytes packets …
        let line =
            text.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'));
        let packets = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        packets.ok_or_else(|| format!("/proc/net/dev does not count packets of {interface}"))
    }
}
