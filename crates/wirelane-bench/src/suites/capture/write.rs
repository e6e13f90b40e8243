//! Writing packets to a file, beside `dd` with as many bytes: the most that the file system takes from one writer.
//!
//! ```text
//!   sim:1, packets of 1500 bytes ─▶ wirelane capture ─▶ file        /dev/zero ─▶ dd bs=1M ─▶ file
//! ```
//!
//! Both are processes, and the time is that from the start of the process to its end; nothing is synced to the disk.
//! The first run of each target is not counted: memory that nobody has touched yet costs more.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wirelane_os::affinity;

use crate::leftovers::{self, Folder};
use crate::peers::process::{Running, line};
use crate::peers::{find, missing};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane::error::{Error, Result};

const SUITE: &str = "capture";
const CASE: &str = "write";
const PEER: &str = "dd";
const SIZE: u64 = 1500;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes that are written in the time of a [`ProcessPlan::window`], about.
const BYTES_PER_S: f64 = 2e9;
/// Below, starting and ending would be most of it; above, it would be most of the memory of a small machine.
const PACKETS: [u64; 2] = [300_000, 600_000];

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None that the report could not hold: what cannot be measured is skipped with its reason.
pub fn write(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let mut targets = Vec::new();
    let memory = Path::new(leftovers::MEMORY);
    for (name, parent) in [("memory", Some(memory)), ("disk", plan.disk)] {
        match parent.map(|parent| Target::new(name, parent, plan)) {
            Some(Ok(target)) => targets.push(target),
            Some(Err(error)) => report.skip(SUITE, CASE, error.to_string()),
            None => {}
        }
    }
    if find(PEER).is_none() {
        report.skip(SUITE, PEER, missing(PEER));
    }
    turns::take(SUITE, plan, &mut targets, report, stop, progress);
    report.rows.extend(targets.iter().flat_map(Target::rows));
    Ok(())
}

/// A place to write to.
struct Target<'a> {
    name: &'static str,
    own: &'a Path,
    folder: Folder,
    packets: u64,
    cpus: Vec<u32>,
    /// Bits per second of ours, and of the other program.
    samples: [Vec<f64>; 2],
}

impl<'a> Target<'a> {
    fn new(name: &'static str, parent: &Path, plan: &ProcessPlan<'a>) -> Result<Self> {
        let folder = Folder::new(parent)?;
        let [least, most] = PACKETS;
        let bytes = plan.window.as_secs_f64() * BYTES_PER_S;
        let packets = ((bytes / SIZE as f64) as u64).clamp(least, most);
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        Ok(Self { name, own: plan.own, folder, packets, cpus, samples: Default::default() })
    }

    fn run(&self, command: &mut Command, file: &Path) -> Result<(u64, Duration)> {
        run(&self.folder, &self.cpus, command, file)
    }

    fn rows(&self) -> Vec<Row> {
        let row = |peer, samples: &Vec<f64>| Row {
            suite: SUITE,
            case: CASE,
            peer,
            params: Params(vec![
                ("port", Param::Text("sim")),
                ("target", Param::Text(self.name)),
                ("size", Param::Number(SIZE)),
            ]),
            metric: "bits_per_s",
            unit: "bit/s",
            samples: samples.clone(),
            source: None,
        };
        let [ours, theirs] = &self.samples;
        let rows = [row(None, ours), row(Some(PEER), theirs)];
        rows.into_iter().filter(|row| !row.samples.is_empty()).collect()
    }
}

impl Turn for Target<'_> {
    fn case(&self) -> &'static str {
        CASE
    }

    fn title(&self) -> String {
        format!("writing to {}, beside {PEER}", self.name)
    }

    /// One sample of each program: a ratio needs both.
    fn measure(&mut self, round: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let file = self.folder.file("capture.pcapng");
        let mut ours = Command::new(self.own);
        ours.arg("capture").arg(format!("sim:1?count={}&size={SIZE}", self.packets));
        ours.args(["--quiet", "--json", "-w"]).arg(&file);
        report.environment.add_command(line(&ours));
        if round == 1 {
            self.run(&mut ours, &file)?;
        }
        let (bytes, elapsed) = self.run(&mut ours, &file)?;
        if bytes < self.packets * SIZE {
            return Err(Error::failed(CASE, "there is no room for the packets"));
        }
        let rate = |elapsed: Duration| bytes as f64 * 8.0 / elapsed.as_secs_f64();
        let [own, others] = &mut self.samples;
        own.push(rate(elapsed));
        let Some(program) = find(PEER).filter(|_| !stop.load(Ordering::Relaxed)) else {
            return Ok(());
        };
        let mut theirs = Command::new(program);
        theirs.args(["if=/dev/zero", "bs=1M", "iflag=count_bytes", "status=none"]);
        theirs.arg(format!("count={bytes}")).arg(format!("of={}", file.display()));
        report.environment.add_command(line(&theirs));
        let samples = others;
        let elapsed = run(&self.folder, &self.cpus, &mut theirs, &file)?.1;
        samples.push(rate(elapsed));
        Ok(())
    }
}

/// Runs a program that writes a file: how many bytes, and in which time. The file is gone then.
fn run(
    folder: &Folder,
    cpus: &[u32],
    command: &mut Command,
    file: &Path,
) -> Result<(u64, Duration)> {
    folder.make()?;
    let begin = Instant::now();
    let ended = Running::start(command, cpus, None).and_then(|running| running.wait(LIMIT));
    let elapsed = begin.elapsed();
    let bytes = fs::metadata(file).map_or(0, |file| file.len());
    folder.remove();
    ended.map(|_| (bytes, elapsed))
}
