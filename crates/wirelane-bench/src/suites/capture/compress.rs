//! Writes packets to compressed files, and compresses as many bytes with the program of that name:
//! rates and sizes.
//!
//! ```text
//!   sim:1, IMIX ─▶ wirelane capture ─▶ file.pcapng.zst        file.pcapng ─▶ zstd -1 ─▶ file.zst
//! ```
//!
//! Both are processes, timed from start to end, on as many CPUs, and all files are in memory. The
//! other program reads what ours would have written without compression. Ours makes its packets
//! meanwhile.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use wirelane_os::affinity;

use crate::peers::process::{Running, line};
use crate::peers::{find, missing};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane::error::{Error, Result};
use wirelane_lab::leftovers::{self, Folder};

const SUITE: &str = "capture";
const CASE: &str = "compress";
/// The programs, each with the suffix that asks for the same of ours, and its arguments before the
/// file. lz4 makes a file beside it, however its standard output is, only with -m.
const PROGRAMS: [(&str, &str, &[&str]); 3] = [
    ("zstd", "zst", &["-1", "-q", "-f", "-k"]),
    ("lz4", "lz4", &["-1", "-q", "-f", "-k", "-m"]),
    ("gzip", "gz", &["-1", "-q", "-f", "-k"]),
];
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Packets per second of a [`ProcessPlan::window`], about, and the fewest: 120 MB.
const PACKETS_PER_S: f64 = 500_000.0;
const FEWEST: u64 = 300_000;

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None: what cannot be measured is skipped with its reason.
pub fn compress(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let folder = match Folder::new(Path::new(leftovers::MEMORY)) {
        Ok(folder) => folder,
        Err(error) => {
            report.skip(SUITE, CASE, error.to_string());
            return Ok(());
        }
    };
    let packets = ((plan.window.as_secs_f64() * PACKETS_PER_S) as u64).max(FEWEST);
    let cpus = affinity::allowed_cpus().unwrap_or_default();
    let case = |(peer, suffix, arguments)| {
        if find(peer).is_none() {
            report.skip(SUITE, peer, missing(peer));
            return None;
        }
        let (folder, own, cpus) = (&folder, plan.own, cpus.clone());
        let [ours, theirs] = Default::default();
        Some(CompressCase { folder, own, peer, suffix, arguments, packets, cpus, ours, theirs })
    };
    let mut cases: Vec<_> = PROGRAMS.into_iter().filter_map(case).collect();
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().flat_map(CompressCase::rows));
    Ok(())
}

/// A compression, and what the two programs made of it.
struct CompressCase<'a> {
    folder: &'a Folder,
    own: &'a Path,
    peer: &'static str,
    suffix: &'static str,
    arguments: &'static [&'static str],
    packets: u64,
    cpus: Vec<u32>,
    ours: Samples,
    theirs: Samples,
}

/// Bits per second before compression, and bytes of the file.
#[derive(Default)]
struct Samples {
    rates: Vec<f64>,
    sizes: Vec<f64>,
}

impl CompressCase<'_> {
    /// What ours writes to a file of this name in the folder.
    fn capture(&self, name: &str) -> Command {
        let mut command = Command::new(self.own);
        command.arg("capture").arg(format!("sim:1?count={}&size=imix", self.packets));
        command.args(["--quiet", "-w"]).arg(self.folder.file(name));
        command
    }

    /// Runs a program, which makes a file of this name: how long it took, and how large that is.
    fn run(&self, mut command: Command, name: &str, report: &mut Report) -> Result<(f64, f64)> {
        report.environment.add_command(line(&command));
        let begin = Instant::now();
        let ended = Running::start(&mut command, &self.cpus, None)?.wait(LIMIT);
        let elapsed = begin.elapsed().as_secs_f64();
        let path = self.folder.file(name);
        let size = fs::metadata(&path).map_err(|error| Error::io(name, "stat", error))?.len();
        ended.map(|_| (elapsed, size as f64))
    }

    fn measure(&mut self, report: &mut Report) -> Result<()> {
        self.folder.make()?;
        let (_, bytes) = self.run(self.capture(PLAIN), PLAIN, report)?;
        let name = format!("ours.pcapng.{}", self.suffix);
        let (elapsed, size) = self.run(self.capture(&name), &name, report)?;
        self.ours.rates.push(bytes * 8.0 / elapsed);
        self.ours.sizes.push(size);
        let program = find(self.peer).ok_or_else(|| Error::failed(self.peer, "is missing"))?;
        let mut command = Command::new(program);
        command.args(self.arguments).arg(self.folder.file(PLAIN));
        let name = format!("{PLAIN}.{}", self.suffix);
        let (elapsed, size) = self.run(command, &name, report)?;
        self.theirs.rates.push(bytes * 8.0 / elapsed);
        self.theirs.sizes.push(size);
        Ok(())
    }

    fn rows(&self) -> Vec<Row> {
        let row = |peer, metric, unit, samples: &[f64]| Row {
            suite: SUITE,
            case: CASE,
            peer,
            params: Params(vec![
                ("compression", Param::Text(self.peer)),
                ("size", Param::Text("imix")),
                ("packets", Param::Number(self.packets)),
            ]),
            metric,
            unit,
            samples: samples.to_vec(),
            source: None,
        };
        let both = [(None, &self.ours), (Some(self.peer), &self.theirs)];
        both.into_iter()
            .filter(|(_, samples)| !samples.rates.is_empty())
            .flat_map(|(peer, samples)| {
                [
                    row(peer, "bits_per_s", "bit/s", &samples.rates),
                    row(peer, "bytes_of_file", "B", &samples.sizes),
                ]
            })
            .collect()
    }
}

impl Turn for CompressCase<'_> {
    fn case(&self) -> &'static str {
        self.peer
    }

    fn title(&self) -> String {
        format!("writing .{}, beside {} -1", self.suffix, self.peer)
    }

    fn measure(&mut self, _: u32, _: &AtomicBool, report: &mut Report) -> Result<()> {
        let measured = self.measure(report);
        self.folder.remove();
        measured
    }
}

/// The packets without compression.
const PLAIN: &str = "plain.pcapng";
