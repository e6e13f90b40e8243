//! What ours writes when nothing else limits it, and what `dd` writes to the same directory.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wirelane::error::{Error, Result};
use wirelane_os::clock;

use super::bed::{self, Bed, SUITE};
use super::load::FLOWS;
use crate::peers::recorders::{OURS, Recording};
use crate::peers::{find, missing};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::suites::place::{DD, dd_direct};
use crate::suites::turns::{self, ProcessPlan, Turn};

pub(super) const CASE: &str = "sim";
/// Lengths of packets, and how many bytes there are of each on average. The simulated interface has
/// no longer ones.
const SIZES: [(&str, f64); 4] =
    [("64", 64.0), ("imix", 4342.0 / 12.0), ("1500", 1500.0), ("9216", 9216.0)];
/// What is written within the time of a sample, about.
const BYTES_PER_S: f64 = 1e9;
/// Small packets take longer than the disk: fewer bytes are enough.
const MOST_PACKETS: f64 = 4e6;
/// Receiving threads, and how is compressed.
const WAYS: [(u64, Option<&str>); 3] = [(1, None), (2, None), (1, Some("lz4"))];

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
pub(super) fn sim(
    bed: &Bed<'_>,
    plan: &ProcessPlan<'_>,
    is_quick: bool,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) {
    if find(DD).is_none() {
        report.skip(SUITE, DD, missing(DD));
    }
    let mut cases = Vec::new();
    for (size, mean) in SIZES {
        for (queues, compress) in WAYS.into_iter().filter(|(queues, _)| !is_quick || *queues == 1) {
            let bytes = plan.window.as_secs_f64() * BYTES_PER_S;
            let packets =
                (bytes / mean).min(MOST_PACKETS).min(bed.most_bytes as f64 / (2.0 * mean));
            let packets = packets as u64;
            let samples = Vec::new();
            cases.push(SimCase { bed, size, mean, queues, compress, packets, samples });
        }
    }
    turns::take(SUITE, plan, &mut cases, report, stop, progress);
    report.rows.extend(cases.iter().flat_map(SimCase::rows));
}

/// Packets of one length.
struct SimCase<'a> {
    bed: &'a Bed<'a>,
    size: &'static str,
    mean: f64,
    queues: u64,
    compress: Option<&'static str>,
    packets: u64,
    samples: Vec<Sample>,
}

struct Sample {
    /// Bytes in the directory, and packets.
    bytes: u64,
    packets: u64,
    elapsed: Duration,
    cpu: Duration,
    /// How long `dd` took for as many bytes.
    dd: Option<Duration>,
}

impl SimCase<'_> {
    /// Records all packets: the interface waits, so none may be missing.
    fn ours(&self, report: &mut Report) -> Result<Sample> {
        self.bed.in_folder(|folder| {
            let source = format!(
                "sim:{}?flows={FLOWS}&count={}&size={}",
                self.queues, self.packets, self.size
            );
            let (own, compress) = (self.bed.own, self.compress);
            let recording =
                Recording { own, source: &source, folder, is_super: false, index: true, compress };
            let missing = || Error::failed(OURS.name, "is missing");
            let command = OURS.command(&recording).ok_or_else(missing)?;
            let (before, begin) = (clock::children_cpu(), Instant::now());
            let output = self.bed.run(command, report)?;
            let elapsed = begin.elapsed();
            let cpu = clock::children_cpu().since(before).total();
            let counts = OURS.counts(&output.stdout, &output.stderr);
            let packets = counts.map_or(0, |counts| counts.captured);
            if packets != self.packets {
                let cause = format!("{packets} of {} packets were recorded", self.packets);
                return Err(Error::failed(CASE, cause));
            }
            Ok(Sample { bytes: bed::size(folder, &|_| true), packets, elapsed, cpu, dd: None })
        })
    }

    /// How long the other program takes for as many bytes; `None` if it is not installed.
    fn theirs(&self, bytes: u64, report: &mut Report) -> Result<Option<Duration>> {
        self.bed.in_folder(|folder| {
            let file = folder.join("zeroes");
            let Some(command) = dd_direct(bytes, &file, self.bed.is_direct) else {
                return Ok(None);
            };
            let begin = Instant::now();
            self.bed.run(command, report)?;
            let elapsed = begin.elapsed();
            let _ = fs::remove_file(file);
            Ok(Some(elapsed))
        })
    }

    fn rows(&self) -> Vec<Row> {
        let row = |peer, metric, unit, of: &dyn Fn(&Sample) -> Option<f64>| Row {
            suite: SUITE,
            case: CASE,
            peer,
            params: Params(vec![
                ("port", Param::Text("sim")),
                ("target", Param::Text(self.bed.target)),
                ("size", Param::Text(self.size)),
                ("queues", Param::Number(self.queues)),
                ("compress", Param::Text(self.compress.unwrap_or("none"))),
            ]),
            metric,
            unit,
            samples: self.samples.iter().filter_map(of).collect(),
            source: None,
        };
        let per_s = |amount: f64, time: Duration| amount / time.as_secs_f64();
        let rows = [
            row(None, "bytes_per_s", "B/s", &|one| Some(per_s(one.bytes as f64, one.elapsed))),
            row(Some(DD), "bytes_per_s", "B/s", &|one| Some(per_s(one.bytes as f64, one.dd?))),
            row(None, "plain_bytes_per_s", "B/s", &|one| {
                Some(per_s(one.packets as f64 * self.mean, one.elapsed))
            }),
            row(None, "packets_per_s", "1/s", &|one| Some(per_s(one.packets as f64, one.elapsed))),
            row(None, "cpu_ns_per_byte", "ns", &|one| {
                Some(one.cpu.as_nanos() as f64 / (one.packets as f64 * self.mean))
            }),
        ];
        rows.into_iter().filter(|row| !row.samples.is_empty()).collect()
    }
}

impl Turn for SimCase<'_> {
    fn case(&self) -> &'static str {
        CASE
    }

    fn title(&self) -> String {
        let (size, queues) = (self.size, self.queues);
        match self.compress {
            Some(by) => format!("recording packets of {size} bytes, compressed by {by}"),
            None => format!("recording packets of {size} bytes, {queues} queues, beside {DD}"),
        }
    }

    /// Another one first in every other round.
    fn measure(&mut self, round: u32, stop: &AtomicBool, report: &mut Report) -> Result<()> {
        let bytes = (self.packets as f64 * self.mean) as u64;
        let mut dd = None;
        // What is compressed has no yardstick: zeroes are as long as what is written.
        if self.compress.is_some() {
            let sample = self.ours(report)?;
            self.samples.push(sample);
            return Ok(());
        }
        if round.is_multiple_of(2) {
            dd = self.theirs(bytes, report)?.map(|time| (time, bytes));
        }
        let mut sample = self.ours(report)?;
        if dd.is_none() && !stop.load(Ordering::Relaxed) {
            dd = self.theirs(sample.bytes, report)?.map(|time| (time, sample.bytes));
        }
        // For as many bytes as ours wrote, padding included.
        sample.dd = dd.map(|(time, bytes)| time.mul_f64(sample.bytes as f64 / bytes as f64));
        self.samples.push(sample);
        Ok(())
    }
}
