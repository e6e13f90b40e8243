//! Sends a file: Wirelane's command and tcpreplay as processes.
//!
//! ```text
//!   first CPU: file in memory ─▶ wirelane forward │ tcpreplay ─▶ wl-a ═══ wl-b: drops, counts
//! ```
//!
//! The packets that arrive at the other end count, for both programs: the number of packets divided
//! by the time from the first to the last. The sender is the limit, and its time includes the path
//! through the cable.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane_lab::leftovers::Folder;
use wirelane_lab::{Lab, LabConfig};
use wirelane_os::bpf::XdpMode;
use wirelane_os::clock;

use crate::job::{Case, Job, Sample, go_on};
use crate::peers::process::{RunningProgram, line};
use crate::row::params;
use crate::suites::bed;
use crate::suites::programs::Drops;

const CASE: &str = "replay";
const PEER: &str = "tcpreplay";
const SIZE: u64 = 64;
const FLOWS: u64 = 64;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Packets per second of a sample, about.
const PACKETS_PER_S: f64 = 500_000.0;
const PACKETS: [u64; 2] = [100_000, 2_000_000];
const POLL: Duration = Duration::from_millis(1);

/// Measures both programs.
pub(super) fn replay(job: &mut Job<'_>) -> Result<()> {
    let bed = job.own().map(Path::to_owned).and_then(|own| ReplayBed::new(&own, job.plan.window));
    let Some(bed) = &job.or_skip(CASE, bed) else { return Ok(()) };
    let theirs = job.find(PEER);
    let case = |peer: Option<PathBuf>| {
        let name = peer.is_some().then_some(PEER);
        let title = format!("replay by {}", line(&bed.command(peer.as_deref())));
        let measure = move |job: &mut Job<'_>| {
            let mut command = bed.command(peer.as_deref());
            job.note(&command);
            bed.sample(&mut command, job)
        };
        let params = params![port = "packet", size = SIZE];
        Case::new(CASE, params, title, measure).of(name)
    };
    job.take([None].into_iter().chain(theirs.map(Some)).map(case).collect())
}

/// A cable whose far end counts, and a file.
struct ReplayBed {
    own: PathBuf,
    lab: Lab,
    counter: Drops,
    folder: Folder,
    packets: u64,
    cpu: u32,
}

impl ReplayBed {
    fn new(own: &Path, window: Duration) -> Result<Self> {
        let lab = Lab::new(LabConfig::default())?;
        let counter = Drops::attach(&lab.far, XdpMode::Native)?;
        let folder = bed::in_memory()?;
        let [least, most] = PACKETS;
        let packets = ((window.as_secs_f64() * PACKETS_PER_S) as u64).clamp(least, most);
        let cpus = bed::cpus();
        let cpu = cpus.first().copied().unwrap_or(0);
        let bed = Self { own: own.to_owned(), lab, counter, folder, packets, cpu };
        bed.folder.make()?;
        let mut make = Command::new(own);
        make.arg("capture");
        make.arg(format!("sim:1?count={packets}&size={SIZE}&flows={FLOWS}"));
        make.args(["--quiet", "--json", "-w"]).arg(bed.file());
        RunningProgram::start(&mut make, &cpus, None)?.wait(LIMIT)?;
        Ok(bed)
    }

    /// tcpreplay reads classic pcap.
    fn file(&self) -> PathBuf {
        self.folder.file("replay.pcap")
    }

    fn command(&self, peer: Option<&Path>) -> Command {
        let interface = self.lab.near.interface();
        let mut command = Command::new(peer.unwrap_or(&self.own));
        if peer.is_some() {
            // Sends as fast as possible, after reading the file.
            command.args(["--topspeed", "--preload-pcap", "-i", interface]).arg(self.file());
            return command;
        }
        command.args(["forward", &format!("file:{}", self.file().display())]);
        command.args([&format!("packet:{interface}?bypass=on"), "--one-way", "--quiet", "--json"]);
        command
    }

    fn sample(&self, command: &mut Command, job: &Job<'_>) -> Result<Sample> {
        let start = self.counter.packets()?;
        let used = clock::children_cpu();
        let mut running = RunningProgram::start(command, &[self.cpu], Some(&self.lab.near))?;
        // The first and the last count of arrivals, with their times.
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
            go_on(job.stop)?;
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
        let lost = self.packets.saturating_sub(arrived) as f64 / self.packets as f64;
        let figures = [
            ("packets_per_s", (arrived - some) as f64 / elapsed),
            ("cpu_ns_per_packet", cpu.as_nanos() as f64 / arrived.max(1) as f64),
            ("lost_share", lost),
        ];
        Ok(figures.into())
    }
}
