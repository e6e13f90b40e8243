//! How long a query of a large store takes: `wirelane extract` beside `tcpdump -r` over the segments.
//!
//! The store is written by the library: two hours of traffic, whose flows are known beforehand. Nothing of it is in the
//! page cache when a program starts. Of the segments tcpdump reads those whose names say that they have packets of the
//! time that was asked for. What both found is counted: a flow must have as many packets in either.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use wirelane::error::{Error, Result};
use wirelane_os::clock;
use wirelane_pcap::{Direction, LINK_TYPE_ETHERNET, Record, Source};
use wirelane_store::{Directory, StoreOptions, StoreWriter};

use super::SUITE;
use super::bed::{self, Bed};
use super::traffic::{Flow, MEAN, PACKETS_OF_FLOW, Traffic};
use crate::peers::{find, missing};
use crate::report::Report;
use crate::row::{Param, Params, Row};
use crate::statistics::rounds::Rounds;
use crate::suites::turns::ProcessPlan;

const CASE: &str = "query";
const TCPDUMP: &str = "tcpdump";
/// The time of the traffic, and the part of it that is asked for.
const SPAN: Duration = Duration::from_secs(2 * 3600);
const ASKED: Duration = Duration::from_secs(5 * 60);
/// A block around a packet of IMIX.
const AROUND: f64 = 34.0;
/// Packets between two looks at the clock.
const BATCH: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures, and adds the rows to `report`; `progress` and `stop` as everywhere.
pub(super) fn query(
    bed: &Bed<'_>,
    bytes: u64,
    plan: &ProcessPlan<'_>,
    report: &mut Report,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, &str),
) {
    if find(TCPDUMP).is_none() {
        report.skip(SUITE, TCPDUMP, missing(TCPDUMP));
    }
    progress(1, "writing a store to be queried");
    let result = bed.in_folder(|folder| {
        let begin = Instant::now();
        let store = Store::write(folder, bytes, stop)?;
        let limit = plan.limit.map(|limit| limit.saturating_sub(begin.elapsed()));
        let plan = ProcessPlan { limit, ..*plan };
        store.ask(bed, &plan, report, stop, progress)
    });
    if let Err(error) = result {
        report.skip(SUITE, CASE, error.to_string());
    }
}

/// A store, and what is known of it.
struct Store {
    path: PathBuf,
    /// When the first packet came.
    begin: u64,
    packets: u64,
    bytes: u64,
}

/// What is asked for.
struct Question {
    name: &'static str,
    expression: String,
    /// Packets from then on and before then.
    time: Option<[u64; 2]>,
    /// Milliseconds of ours and of tcpdump, and how many packets ours found.
    samples: Vec<[Option<f64>; 2]>,
    found: u64,
}

impl Store {
    /// Writes about `bytes`.
    fn write(folder: &Path, bytes: u64, stop: &AtomicBool) -> Result<Self> {
        let path = folder.join("store");
        let failed = |error: wirelane_store::Error| Error::failed(CASE, error.to_string());
        let packets = (bytes as f64 / (MEAN + AROUND)) as u64;
        let begin = clock::realtime_ns().saturating_sub(SPAN.as_nanos() as u64);
        let store = Self { path, begin, packets, bytes: 0 };
        let mut writer =
            StoreWriter::create(&store.path, StoreOptions::default()).map_err(failed)?;
        let source = Source { link_type: LINK_TYPE_ETHERNET, ..Source::default() };
        let mut lane = writer.lane(&[source], None).map_err(failed)?;
        let mut traffic = Traffic::new();
        for number in 0..packets {
            if number % BATCH == 0 {
                lane.tick(clock::monotonic_ns());
                if stop.load(Ordering::Relaxed) {
                    return Err(Error::failed(CASE, "the run was ended"));
                }
            }
            let data = traffic.packet(number);
            let record = Record {
                interface: 0,
                timestamp: store.time(number),
                original_len: data.len() as u32,
                direction: Direction::default(),
                data,
            };
            if !lane.wait_for_room(data.len(), PATIENCE) || !lane.push(&record, None) {
                return Err(Error::failed(CASE, "the disk does not take the packets"));
            }
        }
        lane.finish();
        let written = writer.finish().lanes.iter().map(|lane| lane.written.packets).sum::<u64>();
        if written != packets {
            let cause = format!("{written} of {packets} packets were written");
            return Err(Error::failed(CASE, cause));
        }
        let bytes = bed::size(&store.path, &|_| true);
        Ok(Self { bytes, ..store })
    }

    /// When this packet came.
    fn time(&self, number: u64) -> u64 {
        let share = u128::from(number) * SPAN.as_nanos() / u128::from(self.packets.max(1));
        self.begin + share as u64
    }

    fn questions(&self) -> Vec<Question> {
        let middle = self.packets / 2;
        let flow = Flow::new(Traffic::flow(middle));
        let half = ASKED.as_nanos() as u64 / 2;
        let time = Some([self.time(middle) - half, self.time(middle) + half]);
        let question = |name, expression, time| Question {
            name,
            expression,
            time,
            samples: Vec::new(),
            found: 0,
        };
        let busiest = Flow::new((0..1000).min_by_key(|flow| Flow::new(*flow).server).unwrap_or(0));
        vec![
            question("an address, five minutes", format!("host {}", flow.client), time),
            question("a busy address, five minutes", format!("host {}", busiest.server), time),
            question("a flow", flow.expression(), None),
        ]
    }

    fn ask(
        &self,
        bed: &Bed<'_>,
        plan: &ProcessPlan<'_>,
        report: &mut Report,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(u32, &str),
    ) -> Result<()> {
        let mut questions = self.questions();
        'rounds: for round in Rounds::new(plan.samples, plan.limit) {
            for question in &mut questions {
                if stop.load(Ordering::Relaxed) {
                    break 'rounds;
                }
                progress(round, &format!("query of {}", question.name));
                let (ours, found) = self.ours(bed, question, report)?;
                let theirs =
                    find(TCPDUMP).map(|program| self.theirs(&program, bed, question, report));
                let theirs = theirs.transpose()?;
                let is_wrong = |(_, others): (Duration, u64)| match question.time {
                    // The segments have packets of other times, too.
                    Some(_) => found > others,
                    None => found != others,
                };
                if found == 0 || theirs.is_some_and(is_wrong) {
                    let others = theirs.map_or(0, |(_, others)| others);
                    let cause = format!(
                        "'{}': {found} packets, {others} in {TCPDUMP}",
                        question.expression
                    );
                    return Err(Error::failed(CASE, cause));
                }
                let ms = |time: Duration| time.as_secs_f64() * 1e3;
                question.found = found;
                question.samples.push([Some(ms(ours)), theirs.map(|(time, _)| ms(time))]);
            }
        }
        report.rows.extend(questions.iter().flat_map(|question| self.rows(question, bed.target)));
        Ok(())
    }

    /// How long ours takes, and how many packets it finds.
    fn ours(
        &self,
        bed: &Bed<'_>,
        question: &Question,
        report: &mut Report,
    ) -> Result<(Duration, u64)> {
        self.forget()?;
        let out = self.path.with_extension("found");
        let mut command = Command::new(bed.own);
        command.arg("extract").arg(&self.path).arg(&question.expression);
        if let Some(times) = question.time {
            for (option, time) in ["--from", "--to"].into_iter().zip(times) {
                let time = UNIX_EPOCH + Duration::from_nanos(time);
                command.arg(option).arg(humantime::format_rfc3339_nanos(time).to_string());
            }
        }
        command.arg("-w").arg(&out);
        let begin = Instant::now();
        bed.run(command, report)?;
        let elapsed = begin.elapsed();
        Ok((elapsed, count(&out, bed, report)?))
    }

    /// How long it takes to read the segments one after the other, and how many packets are found.
    fn theirs(
        &self,
        program: &Path,
        bed: &Bed<'_>,
        question: &Question,
        report: &mut Report,
    ) -> Result<(Duration, u64)> {
        self.forget()?;
        let (mut elapsed, mut found) = (Duration::ZERO, 0);
        let out = self.path.with_extension("found");
        for segment in self.segments(question.time)? {
            let mut command = Command::new(program);
            command.args(["-n", "-Z", "root", "-r"]).arg(segment);
            command.arg("-w").arg(&out).arg(&question.expression);
            let begin = Instant::now();
            bed.run(command, report)?;
            elapsed += begin.elapsed();
            found += count(&out, bed, report)?;
        }
        Ok((elapsed, found))
    }

    /// The segments that have packets of this time.
    fn segments(&self, time: Option<[u64; 2]>) -> Result<Vec<PathBuf>> {
        let failed = |error: wirelane_store::Error| Error::failed(CASE, error.to_string());
        let directory = Directory::open(&self.path).map_err(failed)?;
        let mut paths = Vec::new();
        for entry in directory.segments().map_err(failed)? {
            let is_asked = |[from, to]: [u64; 2]| {
                entry.name.times.is_none_or(|(oldest, newest)| oldest <= to && newest >= from)
            };
            if time.is_none_or(is_asked) {
                paths.push(directory.path_of(&entry.name.file_name()));
            }
        }
        Ok(paths)
    }

    /// Lets the page cache forget the store.
    fn forget(&self) -> Result<()> {
        let failed = |error| Error::io(self.path.display().to_string(), "forget", error);
        for entry in std::fs::read_dir(&self.path).map_err(failed)?.flatten() {
            let file = std::fs::File::open(entry.path()).map_err(failed)?;
            let forget = rustix::fs::Advice::DontNeed;
            rustix::fs::fadvise(&file, 0, None, forget).map_err(|errno| failed(errno.into()))?;
        }
        Ok(())
    }

    fn rows(&self, question: &Question, target: &'static str) -> Vec<Row> {
        let row = |peer, metric, unit, samples: Vec<f64>| Row {
            suite: SUITE,
            case: CASE,
            peer,
            params: Params(vec![
                ("target", Param::Text(target)),
                ("asked", Param::Text(question.name)),
                ("store_mb", Param::Number(self.bytes / 1_000_000)),
                ("flows", Param::Number(self.packets / PACKETS_OF_FLOW)),
            ]),
            metric,
            unit,
            samples,
            source: None,
        };
        let of =
            |who: usize| question.samples.iter().filter_map(|one| one[who]).collect::<Vec<_>>();
        let mut rows = vec![
            row(None, "latency_ms", "ms", of(0)),
            row(Some(TCPDUMP), "latency_ms", "ms", of(1)),
            row(None, "packets_found", "1", vec![question.found as f64]),
        ];
        rows.retain(|row| !row.samples.is_empty());
        rows
    }
}

/// How many packets a file has.
fn count(file: &Path, bed: &Bed<'_>, report: &mut Report) -> Result<u64> {
    let Some(program) = find(TCPDUMP) else { return Ok(1) };
    let mut command = Command::new(program);
    command.args(["-n", "--count", "-r"]).arg(file);
    let output = bed.run(command, report)?;
    let number = output.stdout.split_whitespace().find_map(|word| word.parse().ok());
    number.ok_or_else(|| Error::failed(TCPDUMP, "does not say how many packets a file has"))
}
