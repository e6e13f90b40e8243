//! What a second handle on a second queue brings a program that speaks libpcap (`handles.c`).
//!
//! The packets are of the simulated interface, which makes them while they are read: a sender would
//! need a CPU of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use wirelane::error::{Error, Result};
use wirelane_lab::leftovers::Folder;

use super::compiler::compile;
use crate::job::{Case, Job};
use crate::peers::process::Running;
use crate::row::params;
use crate::suites::bed;

const CASE: &str = "handles";
const SOURCE: &str = include_str!("handles.c");
const SIZE: u64 = 64;
const FLOWS: u64 = 64;
const QUEUES: u64 = 2;
/// Packets that are read.
const PACKETS: u64 = 8_000_000;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Measures one handle and two, on an interface of two queues.
pub(super) fn handles(job: &mut Job<'_>) -> Result<()> {
    let Some((folder, program, cpus)) = job.or_skip(CASE, prepare()) else { return Ok(()) };
    let case = |handles: u64| {
        let program = program.clone();
        let measure = move |job: &mut Job<'_>| {
            let rate = sample(&program, handles, cpus, job)?;
            Ok([("packets_per_s", rate)].into())
        };
        let params = params![port = "sim", size = SIZE, queues = QUEUES, handles = handles];
        Case::new(CASE, params, format!("handles on two queues: {handles}"), measure)
    };
    let outcome = job.take([1, 2].map(case).into_iter().collect());
    folder.remove();
    outcome
}

/// Compiles the program into a new folder.
fn prepare() -> Result<(Folder, PathBuf, [u32; 2])> {
    let cpus = bed::two_cpus(CASE)?;
    let folder = Folder::new(&std::env::temp_dir())?;
    folder.make()?;
    let program = folder.file("handles");
    // A header that is missing is libpcap-dev's.
    compile(CASE, SOURCE, &program, &["-lpcap".as_ref()])?;
    Ok((folder, program, cpus))
}

/// Packets per second.
fn sample(program: &Path, handles: u64, cpus: [u32; 2], job: &mut Job<'_>) -> Result<f64> {
    // A device for each handle.
    let queues: Vec<_> = match handles {
        1 => vec!["0-1".to_owned()],
        _ => (0..QUEUES).map(|queue| queue.to_string()).collect(),
    };
    let device = |queues| format!("wirelane:sim:{QUEUES}@{queues}?flows={FLOWS}&size={SIZE}");
    let mut command = Command::new(job.own()?);
    command.args(["exec", "--"]).arg(program).arg(PACKETS.to_string());
    command.args(queues.iter().map(device));
    command.env_remove("LD_PRELOAD").env_remove("WIRELANE_PCAP");
    job.note(&command);
    let mut running = Running::start(&mut command, &cpus, None)?;
    running.wait_for("ready", LIMIT, job.stop)?;
    let pid = i32::try_from(running.id()).ok().and_then(Pid::from_raw);
    // It has been started, and nobody has waited for it.
    let begun = pid.is_some_and(|pid| kill_process(pid, Signal::USR1).is_ok());
    let output = running.wait(LIMIT)?;
    let rate = parse(&output.stdout).filter(|_| begun);
    rate.ok_or_else(|| Error::failed(CASE, "it does not say how long it took"))
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
