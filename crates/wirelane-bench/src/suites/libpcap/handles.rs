//! What a second handle on a second queue brings a program that speaks libpcap (`handles.c`).
//!
//! ```text
//!   packets of both queues lie in the rings:   one handle, one thread  ◀─ ring 0 and ring 1
//!                                              two handles, two threads ◀─ ring 0, ◀─ ring 1
//! ```
//!
//! A sender would need a CPU of its own; so the packets are sent before the program begins to read. The simulated interface
//! makes its packets while they are read.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use wirelane::error::{Error, Result};
use wirelane::port::sim::Stream;
use wirelane_lab::{Lab, LabConfig};
use wirelane_os::affinity;
use wirelane_send::kernel::{LiveSender, Pace};

use super::compiler::compile;
use crate::leftovers::Folder;
use crate::peers::process::{Running, line};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};

const SUITE: &str = "libpcap";
const CASE: &str = "handles";
const SOURCE: &str = include_str!("handles.c");
const SIZE: u64 = 64;
const FLOWS: u64 = 64;
const QUEUES: u16 = 2;
/// Packets that lie in the rings.
const SENT: u64 = 800_000;
/// Packets of them that are read: the queues may not have as many each.
const READ: u64 = 700_000;
/// Packets of the simulated interface that are read.
const MADE: u64 = 8_000_000;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(30);
/// After that the kernel has handed over every block.
const SETTLE: Duration = Duration::from_millis(200);

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None: what cannot be measured is skipped with its reason.
pub fn handles(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let bed = match Bed::new(plan.own) {
        Ok(bed) => bed,
        Err(error) => {
            report.skip(SUITE, CASE, error.to_string());
            return Ok(());
        }
    };
    let mut cases = vec![];
    match &bed.lab {
        Ok(_) => cases.extend([bed.case("packet", 1), bed.case("packet", 2)]),
        Err(error) => report.skip(SUITE, "packet", error.to_string()),
    }
    cases.extend([bed.case("sim", 1), bed.case("sim", 2)]);
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().filter(|case| !case.rates.is_empty()).map(HandlesCase::row));
    Ok(())
}

/// So many handles on a port of two queues.
struct HandlesCase<'a> {
    bed: &'a Bed,
    port: &'static str,
    handles: u16,
    /// Packets per second.
    rates: Vec<f64>,
}

impl Turn for HandlesCase<'_> {
    fn case(&self) -> &'static str {
        self.port
    }

    fn title(&self) -> String {
        format!("{} handles on two queues of {}", self.handles, self.port)
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        self.rates.extend(self.bed.sample(self, stop, report)?);
        Ok(())
    }
}

impl HandlesCase<'_> {
    /// A device for each handle.
    fn devices(&self, interface: &str) -> Vec<String> {
        let queues: Vec<_> = match self.handles {
            1 => vec!["0-1".to_owned()],
            _ => (0..QUEUES).map(|queue| queue.to_string()).collect(),
        };
        let device = |queues: &String| match self.port {
            "sim" => format!("wirelane:sim:{QUEUES}@{queues}?flows={FLOWS}&size={SIZE}"),
            _ => format!("wirelane:packet:{interface}@{queues}"),
        };
        queues.iter().map(device).collect()
    }

    fn row(&self) -> Row {
        Row {
            suite: SUITE,
            case: CASE,
            peer: None,
            params: Params(vec![
                ("port", Param::Text(self.port)),
                ("size", Param::Number(SIZE)),
                ("queues", Param::Number(QUEUES.into())),
                ("handles", Param::Number(self.handles.into())),
            ]),
            metric: "packets_per_s",
            unit: "1/s",
            samples: self.rates.clone(),
            source: None,
        }
    }
}

/// The program, and where its packets come from.
struct Bed {
    own: PathBuf,
    folder: Folder,
    program: PathBuf,
    lab: Result<Lab>,
    frames: Vec<Vec<u8>>,
    cpus: [u32; 2],
}

impl Bed {
    fn new(own: &Path) -> Result<Self> {
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        let cpus = cpus.first_chunk().copied();
        let cpus = cpus.ok_or_else(|| Error::failed(CASE, "it takes two CPUs to measure"))?;
        let stream = Stream::new(&format!("sim:1?flows={FLOWS}&size={SIZE}").parse()?)?;
        let frames = (0..FLOWS).map(|k| stream.packet(k).bytes).collect();
        let folder = Folder::new(&std::env::temp_dir())?;
        folder.make()?;
        let program = folder.file("handles");
        // A header that is missing is libpcap-dev's.
        compile(CASE, SOURCE, &program, &["-lpcap".as_ref()])?;
        let lab = || -> Result<Lab> {
            let lab = Lab::new(LabConfig { queues: QUEUES, ..LabConfig::default() })?;
            // What the sender redirects arrives at packet sockets, too.
            lab.far.set_gro(true)?;
            Ok(lab)
        };
        Ok(Self { own: own.to_owned(), folder, program, lab: lab(), frames, cpus })
    }

    fn case(&self, port: &'static str, handles: u16) -> HandlesCase<'_> {
        HandlesCase { bed: self, port, handles, rates: Vec::new() }
    }

    /// Packets per second; `None` if it was stopped.
    fn sample(
        &self,
        case: &HandlesCase<'_>,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Option<f64>> {
        let lab = self.lab.as_ref().ok().filter(|_| case.port != "sim");
        let interface = lab.map_or("", |lab| lab.far.interface());
        let wanted = if lab.is_some() { READ } else { MADE };
        let mut command = Command::new(&self.own);
        command.args(["exec", "--"]).arg(&self.program).arg(wanted.to_string());
        command.args(case.devices(interface)).env_remove("LD_PRELOAD").env_remove("WIRELANE_PCAP");
        report.environment.add_command(line(&command));
        let site = lab.map(|lab| &lab.far);
        let mut running = Running::start(&mut command, &self.cpus, site)?;
        running.wait_for("ready", LIMIT, stop)?;
        if let Some(lab) = lab {
            // veth has a queue for each CPU that sends.
            for cpu in self.cpus {
                let pace = Pace { count: Some(SENT / 2), rate: None, cpu: Some(cpu) };
                let sending = lab.near.inside(|| {
                    LiveSender::new(lab.near.interface(), &self.frames)
                        .and_then(|sender| sender.start(pace))
                })??;
                let deadline = Instant::now() + LIMIT;
                while !sending.is_finished() && Instant::now() < deadline {
                    if stop.load(Ordering::Relaxed) {
                        return Ok(None);
                    }
                    thread::sleep(Duration::from_millis(2));
                }
                sending.stop()?;
            }
        }
        thread::sleep(SETTLE);
        let pid = i32::try_from(running.id()).ok().and_then(Pid::from_raw);
        // It has been started, and nobody has waited for it.
        let begun = pid.is_some_and(|pid| kill_process(pid, Signal::USR1).is_ok());
        let output = running.wait(LIMIT)?;
        let rate = parse(&output.stdout).filter(|_| begun);
        rate.map(Some).ok_or_else(|| Error::failed(CASE, "it does not say how long it took"))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.folder.remove();
    }
}

/// From `N packets in T ns`.
fn parse(stdout: &str) -> Option<f64> {
    let mut words = stdout.split_whitespace();
    let packets: f64 = words.next()?.parse().ok()?;
    let ns: f64 = words.nth(2)?.parse().ok()?;
    (ns > 0.0).then_some(packets * 1e9 / ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_says_is_understood() {
        assert_eq!(parse("3000 packets in 1500 ns\n"), Some(2e9));
        assert_eq!((parse(""), parse("3 packets in 0 ns")), (None, None));
    }
}
