//! What a second handle on a second queue brings a program that speaks libpcap (`handles.c`).
//!
//! The packets are of the simulated interface, which makes them while they are read: a sender would
//! need a CPU of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use wirelane::error::{Error, Result};
use wirelane_os::affinity;

use super::compiler::compile;
use crate::peers::process::{Running, line};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane_lab::leftovers::Folder;

const SUITE: &str = "libpcap";
const CASE: &str = "handles";
const SOURCE: &str = include_str!("handles.c");
const SIZE: u64 = 64;
const FLOWS: u64 = 64;
const QUEUES: u16 = 2;
/// Packets that are read.
const PACKETS: u64 = 8_000_000;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(30);

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
    let mut cases = [1, 2].map(|handles| HandlesCase { bed: &bed, handles, rates: Vec::new() });
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().filter(|case| !case.rates.is_empty()).map(HandlesCase::row));
    Ok(())
}

/// So many handles on an interface of two queues.
struct HandlesCase<'a> {
    bed: &'a Bed,
    handles: u16,
    /// Packets per second.
    rates: Vec<f64>,
}

impl Turn for HandlesCase<'_> {
    fn case(&self) -> &'static str {
        CASE
    }

    fn title(&self) -> String {
        format!("handles on two queues: {}", self.handles)
    }

    fn measure(&mut self, _: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        self.rates.extend(self.bed.sample(self, stop, report)?);
        Ok(())
    }
}

impl HandlesCase<'_> {
    /// A device for each handle.
    fn devices(&self) -> Vec<String> {
        let queues: Vec<_> = match self.handles {
            1 => vec!["0-1".to_owned()],
            _ => (0..QUEUES).map(|queue| queue.to_string()).collect(),
        };
        let device = |queues| format!("wirelane:sim:{QUEUES}@{queues}?flows={FLOWS}&size={SIZE}");
        queues.iter().map(device).collect()
    }

    fn row(&self) -> Row {
        Row {
            suite: SUITE,
            case: CASE,
            peer: None,
            params: Params(vec![
                ("port", Param::Text("sim")),
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

/// The program.
struct Bed {
    own: PathBuf,
    folder: Folder,
    program: PathBuf,
    cpus: [u32; 2],
}

impl Bed {
    fn new(own: &Path) -> Result<Self> {
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        let cpus = cpus.first_chunk().copied();
        let cpus = cpus.ok_or_else(|| Error::failed(CASE, "it takes two CPUs to measure"))?;
        let folder = Folder::new(&std::env::temp_dir())?;
        folder.make()?;
        let program = folder.file("handles");
        // A header that is missing is libpcap-dev's.
        compile(CASE, SOURCE, &program, &["-lpcap".as_ref()])?;
        Ok(Self { own: own.to_owned(), folder, program, cpus })
    }

    /// Packets per second; `None` if it was stopped.
    fn sample(
        &self,
        case: &HandlesCase<'_>,
        stop: &AtomicBool,
        report: &mut Report,
    ) -> Result<Option<f64>> {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut command = Command::new(&self.own);
        command.args(["exec", "--"]).arg(&self.program).arg(PACKETS.to_string());
        command.args(case.devices()).env_remove("LD_PRELOAD").env_remove("WIRELANE_PCAP");
        report.environment.add_command(line(&command));
        let mut running = Running::start(&mut command, &self.cpus, None)?;
        running.wait_for("ready", LIMIT, stop)?;
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
