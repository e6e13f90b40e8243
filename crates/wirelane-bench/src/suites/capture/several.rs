//! CPU time of one capture of three interfaces, beside three captures of one interface each: our
//! command in turns.
//!
//! ```text
//!   first CPU: paced frames from the kernel ─▶ wl-s0 ═══ wl-r0 ─▶┐
//!                                            ─▶ wl-s1 ═══ wl-r1 ─▶├─ one process, or one for each     second CPU
//!                                            ─▶ wl-s2 ═══ wl-r2 ─▶┘
//! ```

use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane_lab::{Lab, LabConfig, Site};
use wirelane_os::ethtool::Ethtool;
use wirelane_os::iface;
use wirelane_os::link::{self, VethEnd};
use wirelane_send::kernel::{LiveSender, Pace};

use crate::peers::capture::PROGRAMS;
use crate::peers::process::{Running, line};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::paced::{self, LIMIT, SETTLE};
use crate::suites::parts::Parts;
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane_lab::leftovers::{self, Folder};

const SUITE: &str = "capture";
const CASE: &str = "several";
const INTERFACES: usize = 3;
/// Packets per second of each interface.
const RATE: u64 = 60_000;

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None: what cannot be measured is skipped with its reason.
pub fn several(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let bed = match Bed::new(plan.window) {
        Ok(bed) => bed,
        Err(error) => {
            report.skip(SUITE, CASE, error.to_string());
            return Ok(());
        }
    };
    // The second ones have what the first ones leave.
    let mut parts = Parts::new(&[1, 1], plan.limit);
    for (part, target) in [Target::None, Target::Memory].into_iter().enumerate() {
        let plan = &ProcessPlan { limit: parts.limit(part), ..*plan };
        let case = |processes| {
            let (bed, own) = (&bed, plan.own);
            SeveralCase { bed, own, target, processes, samples: Vec::new() }
        };
        let mut cases = [case(1), case(INTERFACES)];
        turns::take(SUITE, plan, &mut cases, report, stop, progress);
        let measured = cases.iter().filter(|case| !case.samples.is_empty());
        report.rows.extend(measured.map(SeveralCase::row));
    }
    Ok(())
}

/// What becomes of packets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    None,
    Memory,
}

/// So many processes of ours, which share the interfaces.
struct SeveralCase<'a> {
    bed: &'a Bed,
    own: &'a Path,
    target: Target,
    processes: usize,
    /// CPU time of a packet in nanoseconds.
    samples: Vec<f64>,
}

impl Turn for SeveralCase<'_> {
    fn case(&self) -> &'static str {
        CASE
    }

    fn title(&self) -> String {
        let (count, target) = (self.processes, self.target());
        format!("CPU time of {INTERFACES} interfaces by {count} captures, written to: {target}")
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let (own, target) = (self.own, self.target);
        self.samples.extend(self.bed.sample(own, self.processes, target, stop, report)?);
        Ok(())
    }
}

impl SeveralCase<'_> {
    fn target(&self) -> &'static str {
        match self.target {
            Target::None => "none",
            Target::Memory => "memory",
        }
    }

    fn row(&self) -> Row {
        Row {
            suite: SUITE,
            case: CASE,
            peer: None,
            params: Params(vec![
                ("port", Param::Text("packet")),
                ("target", Param::Text(self.target())),
                ("interfaces", Param::Number(INTERFACES as u64)),
                ("processes", Param::Number(self.processes as u64)),
                ("offered", Param::Number(RATE)),
            ]),
            metric: "cpu_ns_per_packet_under_load",
            unit: "ns",
            samples: self.samples.clone(),
            source: None,
        }
    }
}

/// Cables within one namespace, and a CPU for either end.
struct Bed {
    window: Duration,
    /// Only its near namespace is used.
    lab: Lab,
    frames: Vec<Vec<u8>>,
    sender: u32,
    capturer: u32,
    memory: Folder,
}

impl Bed {
    /// # Errors
    /// There are no privileges for a cable, or no two CPUs.
    fn new(window: Duration) -> Result<Self> {
        let lab = Lab::new(LabConfig::default())?;
        (0..INTERFACES).try_for_each(|number| cable(&lab.near, number))?;
        let [sender, capturer] = paced::cpus()?;
        let memory = Folder::new(Path::new(leftovers::MEMORY))?;
        let window = window.max(paced::SHORTEST);
        Ok(Self { window, lab, frames: paced::frames()?, sender, capturer, memory })
    }

    /// CPU time of a packet in nanoseconds, of all processes together; `None` if it was stopped.
    fn sample(
        &self,
        own: &Path,
        processes: usize,
        target: Target,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Option<f64>> {
        self.memory.remove();
        self.memory.make()?;
        let [program, ..] = PROGRAMS;
        let interfaces: Vec<String> = (0..INTERFACES).map(receiver).collect();
        let mut running = Vec::new();
        for part in interfaces.chunks(INTERFACES / processes) {
            let mut command = Command::new(own);
            command.arg("capture").args(part.iter().map(|name| format!("packet:{name}")));
            command.args(["--tx-queues", "none", "--other", "off", "--json"]);
            if target == Target::Memory {
                command.arg("-w").arg(self.memory.file(&format!("capture{}", running.len())));
            }
            report.environment.add_command(line(&command));
            let mut one = Running::start(&mut command, &[self.capturer], Some(&self.lab.near))?;
            let is_ready =
                |one: &Running| one.stderr().matches(program.ready).count() == part.len();
            one.wait_until(is_ready, LIMIT, stop)?;
            running.push(one);
        }
        thread::sleep(SETTLE);
        let cpu = |running: &[Running]| running.iter().map(Running::cpu).sum::<Duration>();
        let before = cpu(&running);
        let count = (RATE as f64 * self.window.as_secs_f64()) as u64;
        let pace = Pace { count: Some(count), rate: Some(RATE), cpu: Some(self.sender) };
        let send = |number| {
            LiveSender::new(&sender(number), &self.frames).and_then(|sender| sender.start(pace))
        };
        let send = || (0..INTERFACES).map(send).collect::<Result<Vec<_>>>();
        let sending = self.lab.near.inside(send)??;
        let deadline = Instant::now() + 4 * self.window + LIMIT;
        while sending.iter().any(|one| !one.is_finished())
            && !stop.load(Ordering::Relaxed)
            && Instant::now() < deadline
        {
            thread::sleep(Duration::from_millis(5));
        }
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
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if captured == 0 {
            return Err(Error::failed(CASE, "no packet was captured"));
        }
        Ok(Some(loaded.as_nanos() as f64 / captured as f64))
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
        // What is redirected to it arrives at packet sockets, too.
        Ethtool::open(&to)?.set_gro(true)?;
        [&from, &to].into_iter().try_for_each(|name| iface::up(name))?;
        [&from, &to].into_iter().try_for_each(|name| iface::wait_until_running(name, LIMIT))
    };
    site.inside(make)?.map_err(|error| Error::os(to.as_str(), error))
}
