//! Writes packets to a file, and as many bytes with `dd`: the most that one writer gets out of the
//! file system.
//!
//! ```text
//!   sim:1, packets of 1500 bytes ─▶ wirelane capture ─▶ file        /dev/zero ─▶ dd bs=1M ─▶ file
//! ```
//!
//! Both are processes, timed from start to end. Nothing is synced to the disk. The first run to
//! each place is not counted: memory that nobody has touched yet costs more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wirelane_os::affinity;

use crate::peers::process::{Running, line};
use crate::peers::{find, missing};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::place::{DD, Place, dd};
use crate::suites::turns::{self, ProcessPlan, Turn};
use wirelane::error::{Error, Result};

const SUITE: &str = "capture";
const CASE: &str = "write";
const SIZE: u64 = 1500;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes that are written in the time of a [`ProcessPlan::window`], about.
const BYTES_PER_S: f64 = 2e9;
/// With fewer, starting and ending would be most of it; with more, it would only take longer.
const PACKETS: [u64; 2] = [300_000, 2_000_000];
/// Bytes of a packet in a file, about.
const RECORD: u64 = SIZE + 40;

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
///
/// # Errors
/// None: what cannot be measured is skipped with its reason.
pub fn write(
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) -> Result<()> {
    let places = Place::all(plan.disk, SUITE, CASE, report);
    let mut targets: Vec<_> = places.iter().map(|place| WriteCase::new(place, plan)).collect();
    if find(DD).is_none() {
        report.skip(SUITE, DD, missing(DD));
    }
    turns::take(SUITE, plan, &mut targets, report, stop, progress);
    report.rows.extend(targets.iter().flat_map(WriteCase::rows));
    Ok(())
}

/// A place to write to, and the rates there.
struct WriteCase<'a> {
    own: &'a Path,
    place: &'a Place,
    packets: u64,
    cpus: Vec<u32>,
    /// Bytes of our file, once it has been written.
    bytes: u64,
    /// Bits per second of ours, and of the other program.
    samples: [Vec<f64>; 2],
}

impl<'a> WriteCase<'a> {
    fn new(place: &'a Place, plan: &ProcessPlan<'a>) -> Self {
        let [least, most] = PACKETS;
        let bytes = plan.window.as_secs_f64() * BYTES_PER_S;
        let packets = ((bytes / SIZE as f64) as u64).clamp(least, most).min(place.most / RECORD);
        let cpus = affinity::allowed_cpus().unwrap_or_default();
        Self { own: plan.own, place, packets, cpus, bytes: 0, samples: Default::default() }
    }

    /// Bits per second of our command.
    fn ours(&mut self, report: &mut Report) -> Result<f64> {
        let file = self.file();
        let mut command = Command::new(self.own);
        command.arg("capture").arg(format!("sim:1?count={}&size={SIZE}", self.packets));
        command.args(["--quiet", "--json", "-w"]).arg(&file);
        let (bytes, rate) = self.run(&mut command, report)?;
        if bytes < self.packets * SIZE {
            return Err(Error::failed(CASE, "there is no room for the packets"));
        }
        self.bytes = bytes;
        Ok(rate)
    }

    /// Bits per second of the other program; `None` if it is not installed.
    fn theirs(&self, report: &mut Report) -> Result<Option<f64>> {
        let Some(mut command) = dd(self.bytes, &self.file()) else { return Ok(None) };
        let (_, rate) = self.run(&mut command, report)?;
        Ok(Some(rate))
    }

    fn file(&self) -> PathBuf {
        self.place.folder.file("capture.pcapng")
    }

    /// Runs a program that writes the file: its bytes, and bits per second. The file is gone then.
    fn run(&self, command: &mut Command, report: &mut Report) -> Result<(u64, f64)> {
        report.environment.add_command(line(command));
        self.place.folder.make()?;
        let begin = Instant::now();
        let ended = Running::start(command, &self.cpus, None).and_then(|one| one.wait(LIMIT));
        let elapsed = begin.elapsed();
        let bytes = fs::metadata(self.file()).map_or(0, |file| file.len());
        self.place.folder.remove();
        ended.map(|_| (bytes, bytes as f64 * 8.0 / elapsed.as_secs_f64()))
    }

    fn rows(&self) -> Vec<Row> {
        let row = |peer, samples: &Vec<f64>| Row {
            suite: SUITE,
            case: CASE,
            peer,
            params: Params(vec![
                ("port", Param::Text("sim")),
                ("target", Param::Text(self.place.name)),
                ("size", Param::Number(SIZE)),
            ]),
            metric: "bits_per_s",
            unit: "bit/s",
            samples: samples.clone(),
            source: None,
        };
        let [ours, theirs] = &self.samples;
        let rows = [row(None, ours), row(Some(DD), theirs)];
        rows.into_iter().filter(|row| !row.samples.is_empty()).collect()
    }
}

impl Turn for WriteCase<'_> {
    fn case(&self) -> &'static str {
        CASE
    }

    fn title(&self) -> String {
        format!("writing to {}, beside {DD}", self.place.name)
    }

    /// One sample of each program, another one first in every other round: a ratio needs both.
    fn measure(&mut self, round: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        if self.bytes == 0 {
            self.ours(report)?;
        }
        let mut theirs = None;
        if round.is_multiple_of(2) {
            theirs = self.theirs(report)?;
        }
        let ours = self.ours(report)?;
        if !round.is_multiple_of(2) && !stop.load(Ordering::Relaxed) {
            theirs = self.theirs(report)?;
        }
        self.samples[0].push(ours);
        self.samples[1].extend(theirs);
        Ok(())
    }
}
