//! Writes packets to a file, and the same number of bytes with `dd`: the highest rate of one writer
//! on the file system.
//!
//! ```text
//!   sim:1, packets of 1500 bytes ─▶ wirelane capture ─▶ file        /dev/zero ─▶ dd bs=1M ─▶ file
//! ```
//!
//! Both are processes, timed from start to end. Nothing is synced to the disk. The first run to
//! each place is not counted: memory that is used for the first time costs more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use wirelane::error::{Error, Result};

use crate::job::{Case, Job, Sample, SampleFigure};
use crate::row::params;
use crate::suites::bed::{self, DD, OutputFolder, dd};

const CASE: &str = "write";
const SIZE: u64 = 1500;
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes that are written in the time of a sample, about.
const BYTES_PER_S: f64 = 2e9;
/// With fewer packets, start and end would dominate; with more, a run would only take longer.
const PACKETS: [u64; 2] = [300_000, 2_000_000];
/// Bytes of a packet in a file, about.
const RECORD: u64 = SIZE + 40;

/// Measures both programs, in memory and on `disk` if there is one.
///
/// # Errors
/// None: a case that cannot be measured is skipped with its reason.
pub fn write(job: &mut Job<'_>, disk: Option<&Path>) -> Result<()> {
    let places = OutputFolder::all(disk, CASE, job);
    job.find(DD);
    let case = |place| {
        let mut writers = WriterPair::new(place, job.plan.window);
        let title = format!("writing to {}, beside {DD}", place.name);
        let measure = move |job: &mut Job<'_>| writers.measure(job);
        let params = params![port = "sim", target = place.name, size = SIZE];
        Case::new(CASE, params, title, measure)
    };
    let cases = places.iter().map(case).collect();
    job.take(cases)
}

/// Both programs, and where they write to.
struct WriterPair<'a> {
    place: &'a OutputFolder,
    packets: u64,
    cpus: Vec<u32>,
    /// Bytes of Wirelane's file, once it has been written.
    bytes: u64,
}

impl<'a> WriterPair<'a> {
    fn new(place: &'a OutputFolder, window: Duration) -> Self {
        let [least, most] = PACKETS;
        let packets = (window.as_secs_f64() * BYTES_PER_S / SIZE as f64) as u64;
        let packets = packets.clamp(least, most).min(place.most / RECORD);
        Self { place, packets, cpus: bed::cpus(), bytes: 0 }
    }

    /// One sample of each program, in alternating order: a ratio needs both.
    fn measure(&mut self, job: &mut Job<'_>) -> Result<Sample> {
        if self.bytes == 0 {
            self.ours(job)?;
        }
        let is_last = !job.round.is_multiple_of(2);
        let before = if is_last { None } else { self.theirs(job)? };
        let ours = self.ours(job)?;
        let after = if is_last && !job.is_stopped() { self.theirs(job)? } else { None };
        let theirs = before.or(after).map(|rate| SampleFigure::new("bits_per_s", rate).of(DD));
        Ok([SampleFigure::new("bits_per_s", ours)].into_iter().chain(theirs).into())
    }

    /// Bits per second of Wirelane's command.
    fn ours(&mut self, job: &mut Job<'_>) -> Result<f64> {
        let mut command = Command::new(job.own()?);
        command.arg("capture").arg(format!("sim:1?count={}&size={SIZE}", self.packets));
        command.args(["--quiet", "--json", "-w"]).arg(self.file());
        let (bytes, rate) = self.run(&mut command, job)?;
        if bytes < self.packets * SIZE {
            return Err(Error::failed(CASE, "there is no room for the packets"));
        }
        self.bytes = bytes;
        Ok(rate)
    }

    /// Bits per second of the other program; `None` if it is not installed.
    fn theirs(&self, job: &mut Job<'_>) -> Result<Option<f64>> {
        let command = dd(self.bytes, &self.file());
        let ran = command.map(|mut command| self.run(&mut command, job)).transpose()?;
        Ok(ran.map(|(_, rate)| rate))
    }

    fn file(&self) -> PathBuf {
        self.place.folder.file("capture.pcapng")
    }

    /// Runs a program that writes the file. Returns its bytes and bits per second, and removes the
    /// file.
    fn run(&self, command: &mut Command, job: &mut Job<'_>) -> Result<(u64, f64)> {
        self.place.folder.make()?;
        let ended = job.run(command, &self.cpus, None, LIMIT);
        let bytes = fs::metadata(self.file()).map_or(0, |file| file.len());
        self.place.folder.remove();
        Ok((bytes, bytes as f64 * 8.0 / ended?.elapsed.as_secs_f64()))
    }
}
