//! The time of a query in a large store: `wirelane extract`, compared with `tcpdump -r` over the
//! segments.
//!
//! The library writes the store: two hours of traffic with known flows. The page cache has none of
//! it when a program starts. tcpdump reads only segments whose names include the requested time.
//! The packets found are counted: both programs must find the same number of packets of a flow.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, UNIX_EPOCH};

use wirelane::error::{Error, Result};
use wirelane_os::clock;
use wirelane_pcap::{Direction, LINK_TYPE_ETHERNET, Record, Source};
use wirelane_store::{Directory, StoreOptions, StoreWriter};

use super::bed::{self, RecordBed, RecordCable};
use super::steno::{STENOGRAPHER, StenoRecording};
use super::traffic::{FlowAddresses, MEAN, PACKETS_OF_FLOW, RecordTraffic};
use crate::job::{Job, go_on};
use crate::peers::find;
use crate::row::{FigureRow, RowSubject, params};
use crate::statistics::rounds::Rounds;

const CASE: &str = "query";
const TCPDUMP: &str = "tcpdump";
/// The time of the traffic, and the requested part of it.
const SPAN: Duration = Duration::from_secs(2 * 3600);
const ASKED: Duration = Duration::from_secs(5 * 60);
/// The overhead of a block for a packet of IMIX.
const AROUND: f64 = 34.0;
/// Packets between two looks at the clock.
const BATCH: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures each question, with a store of about `bytes`. With a cable, stenographer is measured,
/// too.
pub(super) fn query(
    bed: &RecordBed<'_>,
    cable: Option<&RecordCable<'_>>,
    bytes: u64,
    job: &mut Job<'_>,
) {
    job.find(TCPDUMP);
    job.tell("writing a store to be queried");
    let result = bed.in_folder(|folder| {
        let begin = Instant::now();
        let store = KnownStore::write(folder, bytes, job.stop)?;
        let limit = job.left(begin);
        let questions = store.ask(bed, &mut job.within(limit))?;
        Ok((store, questions))
    });
    let Some((store, mut questions)) = job.or_skip(CASE, result) else { return };
    if let Some(cable) = cable {
        job.round = 1;
        let result = bed.in_folder(|folder| {
            job.tell("letting stenotype record the same packets");
            let recorded = StenoRecording::write(cable, folder, store.packets, job)?;
            let server = recorded.serve(job.stop)?;
            let result = store.ask_steno(&recorded, bed, &mut questions, job);
            // It may fail when it is asked to end.
            let _ = server.interrupt(PATIENCE);
            result
        });
        job.or_skip(STENOGRAPHER, result);
    }
    for question in &questions {
        let params = params![
            target = bed.target,
            asked = question.name,
            store_mb = store.bytes / 1_000_000,
            flows = store.packets / PACKETS_OF_FLOW,
        ];
        let rows = question.rows(&job.subject(CASE, params));
        job.report.rows.extend(rows);
    }
}

/// A store, and its known content.
struct KnownStore {
    path: PathBuf,
    /// The time of the first packet.
    begin: u64,
    packets: u64,
    bytes: u64,
}

/// A query.
struct StoreQuery {
    name: &'static str,
    expression: String,
    /// The requested time: from the first value to the second.
    time: Option<[u64; 2]>,
    /// Milliseconds of Wirelane, tcpdump and stenographer, and the number of packets that they
    /// found.
    samples: [Vec<f64>; 3],
    found: [u64; 3],
}

impl KnownStore {
    /// Writes about `bytes`.
    fn write(folder: &Path, bytes: u64, stop: &AtomicBool) -> Result<Self> {
        let path = folder.join("store");
        let packets = (bytes as f64 / (MEAN + AROUND)) as u64;
        let begin = clock::realtime_ns().saturating_sub(SPAN.as_nanos() as u64);
        let store = Self { path, begin, packets, bytes: 0 };
        let mut writer = StoreWriter::create(&store.path, StoreOptions::default())?;
        let source = Source { link_type: LINK_TYPE_ETHERNET, ..Source::default() };
        let mut lane = writer.lane(&[source], None)?;
        let mut traffic = RecordTraffic::new();
        for number in 0..packets {
            if number % BATCH == 0 {
                lane.tick(clock::monotonic_ns());
                go_on(stop)?;
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

    /// The time of this packet.
    fn time(&self, number: u64) -> u64 {
        let share = u128::from(number) * SPAN.as_nanos() / u128::from(self.packets.max(1));
        self.begin + share as u64
    }

    fn questions(&self) -> Vec<StoreQuery> {
        let middle = self.packets / 2;
        let flow = FlowAddresses::new(RecordTraffic::flow(middle));
        let half = ASKED.as_nanos() as u64 / 2;
        let time = Some([self.time(middle) - half, self.time(middle) + half]);
        let question = |name, expression, time| StoreQuery {
            name,
            expression,
            time,
            samples: Default::default(),
            found: [0; 3],
        };
        let busiest = FlowAddresses::new(
            (0..1000).min_by_key(|flow| FlowAddresses::new(*flow).server).unwrap_or(0),
        );
        vec![
            question("an address, five minutes", format!("host {}", flow.client), time),
            question("a busy address, five minutes", format!("host {}", busiest.server), time),
            question("a flow", flow.expression(), None),
        ]
    }

    fn ask(&self, bed: &RecordBed<'_>, job: &mut Job<'_>) -> Result<Vec<StoreQuery>> {
        let mut questions = self.questions();
        'rounds: for round in Rounds::new(job.plan.samples, job.plan.limit) {
            job.round = round;
            for question in &mut questions {
                if job.is_stopped() {
                    break 'rounds;
                }
                job.tell(&format!("query of {}", question.name));
                let (ours, found) = self.ours(bed, question, job)?;
                let theirs = find(TCPDUMP).map(|program| self.theirs(&program, bed, question, job));
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
                question.found = [found, theirs.map_or(0, |(_, found)| found), 0];
                question.samples[0].push(ms(ours));
                question.samples[1].extend(theirs.map(|(time, _)| ms(time)));
            }
        }
        Ok(questions)
    }

    /// Sends the same queries to stenographer, for the same part of the time.
    fn ask_steno(
        &self,
        recorded: &StenoRecording,
        bed: &RecordBed<'_>,
        questions: &mut [StoreQuery],
        job: &mut Job<'_>,
    ) -> Result<()> {
        let share = |time: u64| (time - self.begin) as f64 / SPAN.as_nanos() as f64;
        let out = self.path.with_extension("found");
        for _ in 0..job.plan.samples {
            for question in questions.iter_mut() {
                if job.is_stopped() {
                    return Ok(());
                }
                for folder in recorded.folders() {
                    forget(&folder)?;
                }
                let window = question.time.map(|times| times.map(share));
                let query = recorded.query(&question.expression, window);
                let ended = bed.run(recorded.ask(&query, &out)?, job)?;
                question.samples[2].push(ms(ended.elapsed));
                question.found[2] = count(&out, bed, job)?;
            }
        }
        Ok(())
    }

    /// The time of Wirelane's query, and the number of packets that it finds.
    fn ours(
        &self,
        bed: &RecordBed<'_>,
        question: &StoreQuery,
        job: &mut Job<'_>,
    ) -> Result<(Duration, u64)> {
        forget(&self.path)?;
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
        let elapsed = bed.run(command, job)?.elapsed;
        Ok((elapsed, count(&out, bed, job)?))
    }

    /// The time to read the segments one after the other, and the number of packets found.
    fn theirs(
        &self,
        program: &Path,
        bed: &RecordBed<'_>,
        question: &StoreQuery,
        job: &mut Job<'_>,
    ) -> Result<(Duration, u64)> {
        forget(&self.path)?;
        let (mut elapsed, mut found) = (Duration::ZERO, 0);
        let out = self.path.with_extension("found");
        for segment in self.segments(question.time)? {
            let mut command = Command::new(program);
            command.args(["-n", "-Z", "root", "-r"]).arg(segment);
            command.arg("-w").arg(&out).arg(&question.expression);
            elapsed += bed.run(command, job)?.elapsed;
            found += count(&out, bed, job)?;
        }
        Ok((elapsed, found))
    }

    /// The segments that have packets of this time.
    fn segments(&self, time: Option<[u64; 2]>) -> Result<Vec<PathBuf>> {
        let directory = Directory::open(&self.path)?;
        let mut paths = Vec::new();
        for entry in directory.segments()? {
            let is_asked = |[from, to]: [u64; 2]| {
                entry.name.times.is_none_or(|(oldest, newest)| oldest <= to && newest >= from)
            };
            if time.is_none_or(is_asked) {
                paths.push(directory.path_of(&entry.name.file_name()));
            }
        }
        Ok(paths)
    }
}

impl StoreQuery {
    fn rows(&self, subject: &RowSubject) -> Vec<FigureRow> {
        let mut rows = Vec::new();
        let peers = [None, Some(TCPDUMP), Some(STENOGRAPHER)].into_iter();
        for ((peer, samples), found) in peers.zip(&self.samples).zip(self.found) {
            let subject = RowSubject { peer, ..subject.clone() };
            if !samples.is_empty() {
                rows.push(subject.row("latency_ms", samples.clone()));
                rows.push(subject.row("packets_found", vec![found as f64]));
            }
        }
        rows
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Removes the files of a directory from the page cache.
fn forget(folder: &Path) -> Result<()> {
    let failed = |error| Error::io(folder.display().to_string(), "forget", error);
    for entry in std::fs::read_dir(folder).map_err(failed)?.flatten() {
        let file = std::fs::File::open(entry.path()).map_err(failed)?;
        let forget = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(&file, 0, None, forget).map_err(|errno| failed(errno.into()))?;
    }
    Ok(())
}

/// The number of packets in a file.
fn count(file: &Path, bed: &RecordBed<'_>, job: &mut Job<'_>) -> Result<u64> {
    let Some(program) = find(TCPDUMP) else { return Ok(1) };
    let mut command = Command::new(program);
    command.args(["-n", "--count", "-r"]).arg(file);
    let ended = bed.run(command, job)?;
    let number = ended.output.stdout.split_whitespace().find_map(|word| word.parse().ok());
    number.ok_or_else(|| Error::failed(TCPDUMP, "does not say how many packets a file has"))
}
