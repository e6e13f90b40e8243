//! Sends a file: our command and tcpreplay as processes.
//!
//! ```text
//!   first CPU: file in memory ─▶ wirelane forward │ tcpreplay ─▶ wl-a ═══ wl-b: XDP_DROP, which counts
//! ```
//!
//! What arrives at the other end counts, for both alike: packets by the time from the first one to
//! the last. The sender is the limit, and pays for the way through the cable, too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane_os::bpf::XdpMode;
use wirelane_os::{affinity, clock};

use crate::peers::process::{Running, line};
use crate::peers::{find, missing};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::sockets::baseline::Baseline;
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane::error::{Error, Result};
use wirelane_lab::leftovers::{self, Folder};
use wirelane_lab::{Lab, LabConfig};

const SUITE: &str = "sockets";
const CASE: &str = "replay";
const PEER: &str = "tcpreplay";
const SIZE: u64 = 64;
const FLOWS: u64 = 64;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Packets that are sent in the time of a [`ProcessPlan::window`], about.
const PACKETS_PER_S: f64 = 500_000.0;
const PACKETS: [u64; 2] = [100_000, 2_000_000];
const POLL: Duration = Duration::from_millis(1);

/// The counts of one run of one program.
struct ReplaySample {
    packets_per_s: f64,
    /// Of the whole process.
    cpu: Duration,
    arrived: u64,
}

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None: what cannot be measured is skipped with its reason.
pub fn replay(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let bed = match ReplayBed::new(plan) {
        Ok(bed) => bed,
        Err(error) => {
            report.skip(SUITE, CASE, error.to_string());
            return Ok(());
        }
    };
    let mut programs = vec![Program { bed: &bed, peer: None, samples: Vec::new() }];
    match find(PEER) {
        Some(path) => programs.push(Program { bed: &bed, peer: Some(path), samples: Vec::new() }),
        None => report.skip(SUITE, PEER, missing(PEER)),
    }
    turns::take(SUITE, plan, &mut programs, report, stop, progress);
    for program in programs.iter().filter(|program| !program.samples.is_empty()) {
        report.rows.extend(bed.rows(program.peer.is_some(), &program.samples));
    }
    Ok(())
}

/// Ours, or the other program that is at `peer`.
struct Program<'a> {
    bed: &'a ReplayBed<'a>,
    peer: Option<PathBuf>,
    samples: Vec<ReplaySample>,
}

impl Turn for Program<'_> {
    fn case(&self) -> &'static str {
        if self.peer.is_some() { PEER } else { CASE }
    }

    fn title(&self) -> String {
        format!("replay by {}", line(&self.bed.command(self.peer.as_deref())))
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let mut command = self.bed.command(self.peer.as_deref());
        report.environment.add_command(line(&command));
        self.samples.extend(self.bed.sample(&mut command, stop)?);
        Ok(())
    }
}

/// A cable whose far end counts, and a file.
struct ReplayBed<'a> {
    own: &'a Path,
    lab: Lab,
    counter: Baseline,
    folder: Folder,
    packets: u64,
    cpu: u32,
}

impl<'a> ReplayBed<'a> {
    fn new(plan: &ProcessPlan<'a>) -> Result<Self> {
        let lab = Lab::new(LabConfig::default())?;
        let far = lab.far.interface();
        let counter = lab.far.inside(|| Baseline::attach(far, XdpMode::Native))??;
        let folder = Folder::new(Path::new(leftovers::MEMORY))?;
        let [least, most] = PACKETS;
        let packets = (plan.window.as_secs_f64() * PACKETS_PER_S) as u64;
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        let cpu = cpus.first().copied().unwrap_or(0);
        let packets = packets.clamp(least, most);
        let bed = Self { own: plan.own, lab, counter, folder, packets, cpu };
        bed.folder.make()?;
        let mut make = Command::new(plan.own);
        make.arg("capture");
        make.arg(format!("sim:1?count={}&size={SIZE}&flows={FLOWS}", bed.packets));
        make.args(["--quiet", "--json", "-w"]).arg(bed.file());
        Running::start(&mut make, &cpus, None)?.wait(LIMIT)?;
        Ok(bed)
    }

    /// tcpreplay reads classic pcap.
    fn file(&self) -> PathBuf {
        self.folder.file("replay.pcap")
    }

    fn command(&self, peer: Option<&Path>) -> Command {
        let interface = self.lab.near.interface();
        let mut command = Command::new(peer.unwrap_or(self.own));
        if peer.is_some() {
            // As fast as it can, after it has read the file.
            command.args(["--topspeed", "--preload-pcap", "-i", interface]).arg(self.file());
            return command;
        }
        command.args(["forward", &format!("file:{}", self.file().display())]);
        command.args([&format!("packet:{interface}?bypass=on"), "--one-way", "--quiet", "--json"]);
        command
    }

    /// `None` if it was stopped.
    fn sample(&self, command: &mut Command, stop: &AtomicBool) -> Result<Option<ReplaySample>> {
        let start = self.counter.packets()?;
        let used = clock::children_cpu();
        let mut running = Running::start(command, &[self.cpu], Some(&self.lab.near))?;
        // When how many were there: first, and last.
        let (mut first, mut last) = (None, None);
        let deadline = Instant::now() + LIMIT;
        loop {
            let is_running = running.is_running();
            let (arrived, now) = (self.counter.packets()? - start, Instant::now());
            if arrived > 0 {
                first.get_or_insert((arrived, now));
                if last.is_none_or(|(before, _)| before < arrived) {
                    last = Some((arrived, now));
                }
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            if !is_running || now >= deadline {
                break;
            }
            thread::sleep(POLL);
        }
        running.wait(LIMIT)?;
        let cpu = clock::children_cpu().since(used).total();
        let (Some((some, begin)), Some((arrived, end))) = (first, last) else {
            return Err(Error::failed(line(command), "nothing of what it sent has arrived"));
        };
        let elapsed = (end - begin).as_secs_f64();
        if elapsed <= 0.0 {
            return Err(Error::failed(line(command), "it sent all in less than a millisecond"));
        }
        let packets_per_s = (arrived - some) as f64 / elapsed;
        Ok(Some(ReplaySample { packets_per_s, cpu, arrived }))
    }

    fn rows(&self, is_peer: bool, samples: &[ReplaySample]) -> [Row; 3] {
        let row = |metric, unit, of: &dyn Fn(&ReplaySample) -> f64| Row {
            suite: SUITE,
            case: CASE,
            peer: is_peer.then_some(PEER),
            params: Params(vec![("port", Param::Text("packet")), ("size", Param::Number(SIZE))]),
            metric,
            unit,
            samples: samples.iter().map(of).collect(),
            source: None,
        };
        let lost = |sample: &ReplaySample| {
            self.packets.saturating_sub(sample.arrived) as f64 / self.packets as f64
        };
        let cpu =
            |sample: &ReplaySample| sample.cpu.as_nanos() as f64 / sample.arrived.max(1) as f64;
        [
            row("packets_per_s", "1/s", &|sample| sample.packets_per_s),
            row("cpu_ns_per_packet", "ns", &cpu),
            row("lost_share", "1", &lost),
        ]
    }
}
