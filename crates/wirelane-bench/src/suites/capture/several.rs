//! CPU time of one capture of three interfaces, compared with three captures of one interface each.
//! Both are Wirelane's command, in turns.
//!
//! ```text
//!   first CPU: paced frames from the kernel         second CPU: one process, or one for each
//!     ─▶ wl-s0 ═══ wl-r0 ─▶┐
//!     ─▶ wl-s1 ═══ wl-r1 ─▶├─ captures
//!     ─▶ wl-s2 ═══ wl-r2 ─▶┘
//! ```

use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use wirelane::error::{Error, Result};
use wirelane_lab::leftovers::Folder;
use wirelane_lab::{Lab, LabConfig, Site};
use wirelane_os::ethtool::Ethtool;
use wirelane_os::iface;
use wirelane_os::link::{self, VethEnd};
use wirelane_send::kernel::{LivePace, LiveSender, RunningSender};

use crate::job::{Case, Job, wait};
use crate::peers::capture::PROGRAMS;
use crate::peers::process::{RunningProgram, SETTLE};
use crate::row::params;
use crate::suites::bed;
use crate::suites::paced::{self, LIMIT};
use crate::suites::parts::TimeShares;

const CASE: &str = "several";
const INTERFACES: usize = 3;
/// Packets per second of each interface.
const RATE: u64 = 60_000;

/// Measures one process and three, without a file and with one in memory.
pub(super) fn several(job: &mut Job<'_>) -> Result<()> {
    let window = job.plan.window.max(paced::SHORTEST);
    let Some(bed) = &job.or_skip(CASE, CablesBed::new(window)) else { return Ok(()) };
    // The second target gets the time that the first one leaves.
    let mut parts = TimeShares::new(&[1, 1], job.plan.limit);
    for (part, target) in ["none", "memory"].into_iter().enumerate() {
        let case = |processes: usize| {
            let title = format!(
                "CPU time of {INTERFACES} interfaces by {processes} captures, written to: {target}"
            );
            let measure = move |job: &mut Job<'_>| {
                let ns = bed.sample(processes, target == "memory", job)?;
                Ok([("cpu_ns_per_packet_under_load", ns)].into())
            };
            let params = params![
                port = "packet",
                target = target,
                interfaces = INTERFACES,
                processes = processes,
                offered = RATE,
            ];
            Case::new(CASE, params, title, measure)
        };
        job.within(parts.limit(part)).take(vec![case(1), case(INTERFACES)])?;
    }
    Ok(())
}

/// Cables within one namespace, and a CPU for either end.
struct CablesBed {
    window: Duration,
    /// Only its near namespace is used.
    lab: Lab,
    frames: Vec<Vec<u8>>,
    sender: u32,
    capturer: u32,
    memory: Folder,
}

impl CablesBed {
    /// # Errors
    /// The privileges for a cable are missing, or there are fewer than two CPUs.
    fn new(window: Duration) -> Result<Self> {
        let lab = Lab::new(LabConfig::default())?;
        (0..INTERFACES).try_for_each(|number| cable(&lab.near, number))?;
        let [sender, capturer] = bed::two_cpus("CPU time of captures")?;
        let (frames, memory) = (paced::frames()?, bed::in_memory()?);
        Ok(Self { window, lab, frames, sender, capturer, memory })
    }

    /// CPU time of a packet in nanoseconds, of all processes together.
    fn sample(&self, processes: usize, is_written: bool, job: &mut Job<'_>) -> Result<f64> {
        self.memory.remove();
        self.memory.make()?;
        let [program, ..] = PROGRAMS;
        let interfaces: Vec<String> = (0..INTERFACES).map(receiver).collect();
        let mut running = Vec::new();
        for part in interfaces.chunks(INTERFACES / processes) {
            let mut command = Command::new(job.own()?);
            command.arg("capture").args(part.iter().map(|name| format!("packet:{name}")));
            command.args(["--tx-queues", "none", "--other", "off", "--json"]);
            if is_written {
                command.arg("-w").arg(self.memory.file(&format!("capture{}", running.len())));
            }
            job.note(&command);
            let mut one =
                RunningProgram::start(&mut command, &[self.capturer], Some(&self.lab.near))?;
            let is_ready =
                |one: &RunningProgram| one.stderr().matches(program.ready).count() == part.len();
            one.wait_until(is_ready, LIMIT, job.stop)?;
            running.push(one);
        }
        thread::sleep(SETTLE);
        let cpu =
            |running: &[RunningProgram]| running.iter().map(RunningProgram::cpu).sum::<Duration>();
        let before = cpu(&running);
        let count = (RATE as f64 * self.window.as_secs_f64()) as u64;
        let pace = LivePace { count: Some(count), rate: Some(RATE), cpu: Some(self.sender) };
        let send = |number| {
            LiveSender::new(&sender(number), &self.frames).and_then(|sender| sender.start(pace))
        };
        let send = || (0..INTERFACES).map(send).collect::<Result<Vec<_>>>();
        let sending = self.lab.near.inside(send)??;
        let is_over = || sending.iter().all(RunningSender::is_finished);
        let go_on = wait(4 * self.window + LIMIT, job.stop, is_over);
        sending.into_iter().try_for_each(|one| one.stop().map(|_| ()))?;
        thread::sleep(program.drain);
        let loaded = cpu(&running).saturating_sub(before);
        let mut captured = 0;
        for one in running {
            let output = one.interrupt(LIMIT)?;
            let counts = program.counts(&output.stdout, &output.stderr);
            captured += counts.map_or(0, |counts| counts.captured);
        }
        self.memory.remove();
        go_on?;
        if captured == 0 {
            return Err(Error::failed(CASE, "no packet was captured"));
        }
        Ok(loaded.as_nanos() as f64 / captured as f64)
    }
}

fn sender(number: usize) -> String {
    format!("wl-s{number}")
}

fn receiver(number: usize) -> String {
    format!("wl-r{number}")
}

/// Makes a cable whose ends are both at `site`.
fn cable(site: &Site, number: usize) -> Result<()> {
    let (from, to) = (sender(number), receiver(number));
    let end = |name, last| VethEnd {
        name,
        namespace: site.as_fd(),
        mac: [2, 0, 0, 1, number as u8, last],
    };
    let make = || {
        link::create_veth([end(&from, 1), end(&to, 2)], 1, 1500)?;
        // With GRO, packets that are redirected to it arrive at packet sockets, too.
        Ethtool::open(&to)?.set_gro(true)?;
        [&from, &to].into_iter().try_for_each(|name| iface::up(name))?;
        [&from, &to].into_iter().try_for_each(|name| iface::wait_until_running(name, LIMIT))
    };
    site.inside(make)?.map_err(|error| Error::os(to.as_str(), error))
}
