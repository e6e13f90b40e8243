//! Writes packets to compressed files, and compresses the same number of bytes with the program of
//! that name: rates and sizes.
//!
//! ```text
//!   sim:1, IMIX ─▶ wirelane capture ─▶ file.pcapng.zst        file.pcapng ─▶ zstd -1 ─▶ file.zst
//! ```
//!
//! Both are processes, timed from start to end, on the same CPUs. All files are in memory. The
//! other program reads the file that Wirelane writes without compression. Wirelane also generates
//! its packets while it is timed.

use std::fs;
use std::process::Command;
use std::time::Duration;

use wirelane::error::{Error, Result};
use wirelane_lab::leftovers::Folder;

use crate::job::{Case, Job, Sample, SampleFigure};
use crate::row::params;
use crate::suites::bed;

const CASE: &str = "compress";
/// The programs, each with the suffix that selects its compression in Wirelane, and its arguments
/// before the file. Only with -m does lz4 write a file, whatever its standard output is.
const PROGRAMS: [(&str, &str, &[&str]); 3] = [
    ("zstd", "zst", &["-1", "-q", "-f", "-k"]),
    ("lz4", "lz4", &["-1", "-q", "-f", "-k", "-m"]),
    ("gzip", "gz", &["-1", "-q", "-f", "-k"]),
];
/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);
/// Packets per second of a sample, about, and the fewest: 120 MB.
const PACKETS_PER_S: f64 = 500_000.0;
const FEWEST: u64 = 300_000;
/// The packets without compression.
const PLAIN: &str = "plain.pcapng";

/// Measures each compression, by `wirelane capture` and by the program of that name.
pub(super) fn compress(job: &mut Job<'_>) -> Result<()> {
    let Some(folder) = &job.or_skip(CASE, bed::in_memory()) else { return Ok(()) };
    let packets = ((job.plan.window.as_secs_f64() * PACKETS_PER_S) as u64).max(FEWEST);
    let mut cases = Vec::new();
    for (peer, suffix, arguments) in PROGRAMS {
        let Some(program) = job.find(peer) else { continue };
        let measure = move |job: &mut Job<'_>| {
            let mut theirs = Command::new(&program);
            theirs.args(arguments).arg(folder.file(PLAIN));
            let measured = sample(folder, packets, suffix, (peer, theirs), job);
            folder.remove();
            measured
        };
        let title = format!("writing .{suffix}, beside {peer} -1");
        let params = params![compression = peer, size = "imix", packets = packets];
        cases.push(Case::new(CASE, params, title, measure).skipped_as(peer));
    }
    job.take(cases)
}

/// Bits per second before compression, and bytes of the file, of both.
fn sample(
    folder: &Folder,
    packets: u64,
    suffix: &str,
    (peer, mut theirs): (&'static str, Command),
    job: &mut Job<'_>,
) -> Result<Sample> {
    let (cpus, own) = (bed::cpus(), job.own()?.to_owned());
    // The time that a program takes to write a file of this name, and the size of the file.
    let mut run = |command: &mut Command, name: &str| -> Result<(f64, f64)> {
        let elapsed = job.run(command, &cpus, None, LIMIT)?.elapsed.as_secs_f64();
        let file = fs::metadata(folder.file(name));
        Ok((elapsed, file.map_err(|error| Error::io(name, "stat", error))?.len() as f64))
    };
    let capture = |name: &str| {
        let mut command = Command::new(&own);
        command.arg("capture").arg(format!("sim:1?count={packets}&size=imix"));
        command.args(["--quiet", "-w"]).arg(folder.file(name));
        command
    };
    folder.make()?;
    let (_, bytes) = run(&mut capture(PLAIN), PLAIN)?;
    let name = format!("ours.pcapng.{suffix}");
    let figures = |(elapsed, size): (f64, f64)| {
        [
            SampleFigure::new("bits_per_s", bytes * 8.0 / elapsed),
            SampleFigure::new("bytes_of_file", size),
        ]
    };
    let ours = figures(run(&mut capture(&name), &name)?);
    let theirs = figures(run(&mut theirs, &format!("{PLAIN}.{suffix}"))?);
    Ok([ours, theirs.map(|figure| figure.of(peer))].concat().into())
}
