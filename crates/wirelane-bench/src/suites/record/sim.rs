//! The highest write rate of Wirelane, with no other limit, and of `dd` to the same directory.

use std::fs;
use std::time::Duration;

use wirelane::error::{Error, Result};

use super::bed::{self, RecordBed};
use super::load::FLOWS;
use crate::job::{Case, Job, Sample, SampleFigure};
use crate::peers::recorders::{OURS, RecordTask};
use crate::row::params;
use crate::suites::bed::{DD, dd_direct};

const CASE: &str = "sim";
/// Lengths of packets, and the average bytes of each. The simulated interface has no longer ones.
const SIZES: [(&str, f64); 4] =
    [("64", 64.0), ("imix", 4342.0 / 12.0), ("1500", 1500.0), ("9216", 9216.0)];
/// Bytes per second of a sample, about.
const BYTES_PER_S: f64 = 1e9;
/// Small packets take longer than the disk, so fewer bytes are enough.
const MOST_PACKETS: f64 = 4e6;
/// Receiving threads, and compression.
const WAYS: [(u64, Option<&str>); 3] = [(1, None), (2, None), (1, Some("lz4"))];

/// Measures each length of packets, in each way.
pub(super) fn sim(bed: &RecordBed<'_>, job: &mut Job<'_>) -> Result<()> {
    let is_quick = job.effort.quick;
    job.find(DD);
    let mut cases = Vec::new();
    for (size, mean) in SIZES {
        for (queues, compress) in WAYS.into_iter().filter(|(queues, _)| !is_quick || *queues == 1) {
            let packets = (job.plan.window.as_secs_f64() * BYTES_PER_S / mean).min(MOST_PACKETS);
            let packets = packets.min(bed.most_bytes as f64 / (2.0 * mean)) as u64;
            let one = Recordings { bed, size, mean, queues, compress, packets };
            let title = match compress {
                Some(by) => format!("recording packets of {size} bytes, compressed by {by}"),
                None => format!("recording packets of {size} bytes, {queues} queues, beside {DD}"),
            };
            let params = params![
                port = "sim",
                target = bed.target,
                size = size,
                queues = queues,
                compress = compress.unwrap_or("none"),
            ];
            let measure = move |job: &mut Job<'_>| one.measure(job);
            cases.push(Case::new(CASE, params, title, measure));
        }
    }
    job.take(cases)
}

/// Packets of one length.
struct Recordings<'a> {
    bed: &'a RecordBed<'a>,
    size: &'static str,
    mean: f64,
    queues: u64,
    compress: Option<&'static str>,
    packets: u64,
}

/// Bytes in the directory, and the times of `wirelane record`.
struct RecordedBytes {
    bytes: u64,
    elapsed: Duration,
    cpu: Duration,
}

impl Recordings<'_> {
    /// Runs both programs, in alternating order.
    fn measure(&self, job: &mut Job<'_>) -> Result<Sample> {
        let plain = self.packets as f64 * self.mean;
        // Compressed packets have no yardstick: `dd` writes zeroes without compression.
        let has_yardstick = self.compress.is_none();
        let mut rate = None;
        if has_yardstick && job.round.is_multiple_of(2) {
            rate = self.theirs(plain as u64, job)?;
        }
        let ours = self.ours(job)?;
        if has_yardstick && rate.is_none() && !job.is_stopped() {
            rate = self.theirs(ours.bytes, job)?;
        }
        let per_s = |amount: f64| amount / ours.elapsed.as_secs_f64();
        let figures = [
            Some(SampleFigure::new("bytes_per_s", per_s(ours.bytes as f64))),
            rate.map(|rate| SampleFigure::new("bytes_per_s", rate).of(DD)),
            Some(SampleFigure::new("plain_bytes_per_s", per_s(plain))),
            Some(SampleFigure::new("packets_per_s", per_s(self.packets as f64))),
            Some(SampleFigure::new("cpu_ns_per_byte", ours.cpu.as_nanos() as f64 / plain)),
        ];
        Ok(figures.into_iter().flatten().into())
    }

    /// Records all packets: the interface waits, so none may be missing.
    fn ours(&self, job: &mut Job<'_>) -> Result<RecordedBytes> {
        let Self { bed, size, queues, compress, packets, .. } = *self;
        bed.in_folder(|folder| {
            let source = &format!("sim:{queues}?flows={FLOWS}&count={packets}&size={size}");
            let own = bed.own;
            let recording =
                RecordTask { own, source, folder, is_super: false, index: true, compress };
            let ended = bed.run(OURS.command(&recording)?, job)?;
            let counts = OURS.counts(&ended.output.stdout, &ended.output.stderr);
            let recorded = counts.map_or(0, |counts| counts.captured);
            if recorded != packets {
                let cause = format!("{recorded} of {packets} packets were recorded");
                return Err(Error::failed(CASE, cause));
            }
            let bytes = bed::size(folder, &|_| true);
            Ok(RecordedBytes { bytes, elapsed: ended.elapsed, cpu: ended.cpu })
        })
    }

    /// Bytes per second of the other program, which writes `bytes`; `None` if it is not installed.
    fn theirs(&self, bytes: u64, job: &mut Job<'_>) -> Result<Option<f64>> {
        self.bed.in_folder(|folder| {
            let file = folder.join("zeroes");
            let Some(command) = dd_direct(bytes, &file, self.bed.is_direct) else {
                return Ok(None);
            };
            let elapsed = self.bed.run(command, job)?.elapsed;
            let _ = fs::remove_file(file);
            Ok(Some(bytes as f64 / elapsed.as_secs_f64()))
        })
    }
}
