//! `wirelane merge`: capture files become one, exactly in order of time.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use wirelane::Error;
use wirelane::halt::Halt;
use wirelane::pcap::pcapng::MAX_PACKET;
use wirelane::pcap::{MergeControl, MergeReport, MergedInput, merge_files};

use crate::access::AccessArgs;
use crate::args;
use crate::output::{self, plural};

/// How often it is looked whether the merge has come to its end, and whether somebody asks.
const LOOK: Duration = Duration::from_millis(5);

/// Merge capture files into one, in order of time.
///
/// Reads pcap and pcapng, plain or compressed with gzip, lz4 or zstd, such as the files of
/// `wirelane capture --split`. Packets with equal times keep the order in which the files are given.
/// Every interface keeps its description, queue and counters. Comments, other options, names, secrets for
/// decryption and custom blocks are kept. A pcap file (-w all.pcap) has one link type and none of these; what
/// is left out is told.
///
/// If a file is damaged, everything before the damage is merged and the exit status is 1. ^C ends the
/// merge: the output then holds what was merged so far, and the exit status is 1. SIGUSR1 prints the
/// progress.
#[derive(Args, Clone, Debug)]
pub(crate) struct MergeArgs {
    /// Files to merge; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// Write to FILE; `-` is standard output, and the suffix .gz, .lz4 or .zst compresses
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Compress with gzip, lz4 or zstd, as in zstd:3,threads=2: a level from the fastest (1, the default)
    /// to the smallest (gzip 9, zstd 22), and how many threads compress. `none` does not compress
    #[arg(long, value_name = "HOW", value_parser = args::compress)]
    pub(crate) compress: Option<args::Compress>,

    #[command(flatten)]
    pub(crate) access: AccessArgs,

    /// Print one JSON object (schema wirelane.merge/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
///
/// # Errors
/// When a file cannot be opened, the output cannot be written, a file was damaged, or a signal ended it; the output then
/// holds what was before.
pub(crate) fn run(args: &MergeArgs) -> Result<(), Error> {
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout && args.json {
        return Err(Error::usage("--json", "standard output already takes the packets of `-w -`")
            .help("write the packets to a file"));
    }
    let compression = args::writer(&args.output, args.compress)?.compression;
    let halt = Halt::by_signals().map_err(|error| Error::os("signals", error))?;
    let control = MergeControl::new(halt).compression(compression).access(args.access.access()?);
    let report = watch(args, &control)?;
    if args.json {
        output::json(&Document::new(args, &report))?;
    } else {
        // Nobody may be there to read it; that is no reason to fail.
        let _ = io::stderr().write_all(summary(args, &report).as_bytes());
    }
    let name = name(&args.output, "standard output");
    let stopped = (report.stopped && report.failure.is_none()).then(|| {
        let cause = format!("it has only the first {}", plural(report.written.packets, "packet"));
        Error::failed(name, cause + ", because a signal ended the merge").help("merge again")
    });
    let damage = report.inputs.into_iter().filter_map(|input| input.damage);
    let mut errors = report.failure.into_iter().chain(damage).map(Error::from).chain(stopped);
    let first = errors.next();
    errors.for_each(|error| output::line(format_args!("wirelane: {error}")));
    first.map_or(Ok(()), Err)
}

/// Merges on a thread of its own, and tells how far it is whenever SIGUSR1 asks.
fn watch(args: &MergeArgs, control: &MergeControl) -> Result<MergeReport, Error> {
    let merge = || merge_files(&args.inputs, &args.output, control);
    thread::scope(|scope| {
        let started = thread::Builder::new().name("wl-merge".into()).spawn_scoped(scope, merge);
        let merging = started.map_err(|error| Error::io("thread wl-merge", "clone", error))?;
        let mut reports = 0;
        while !merging.is_finished() {
            let asked = Halt::reports();
            if std::mem::replace(&mut reports, asked) != asked {
                let (taken, written) = control.packets();
                output::line(format_args!("so far: {taken} packets taken, {written} written"));
            }
            thread::sleep(LOOK);
        }
        let merged = merging.join().map_err(|_| Error::failed("merge", "panicked: a defect"))?;
        Ok(merged?)
    })
}

fn summary(args: &MergeArgs, report: &MergeReport) -> String {
    let mut text = String::new();
    for input in &report.inputs {
        let name = name(&input.path, "standard input");
        let packets = plural(input.packets, "packet");
        text += &format!("{name}: {packets}, {}", plural(input.interfaces as u64, "interface"));
        if input.out_of_order > 0 {
            text += &format!(", {} out of order", input.out_of_order);
        }
        text += "\n";
        for note in notes(input) {
            text += &format!("  note: {note}\n");
        }
    }
    let name = name(&args.output, "standard output");
    let packets = plural(report.written.packets, "packet");
    text += &format!("{name}: {packets}, {} bytes", report.written.bytes);
    if report.out_of_order > 0 {
        let count = report.out_of_order;
        text += &format!(", {count} out of order, as in the input");
    }
    text += "\n";
    for note in report.lost.notes() {
        text += &format!("  note: {note}\n");
    }
    text
}

/// What is not in the output as it was in the input.
fn notes(input: &MergedInput) -> Vec<String> {
    let mut notes = input.odd_times.notes();
    if input.cut > 0 {
        let packets = plural(input.cut, "packet");
        notes.push(format!("{packets} longer than {MAX_PACKET} bytes cut to that length"));
    }
    notes
}

fn name(path: &Path, dash: &str) -> String {
    if path.as_os_str() == "-" { dash.into() } else { path.display().to_string() }
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    command: &'static str,
    version: &'static str,
    inputs: Vec<Input>,
    output: Output,
    /// A signal ended it.
    stopped: bool,
    /// Why not everything could be written, in words; `null` if it was.
    failure: Option<String>,
}

#[derive(Serialize)]
struct Input {
    path: String,
    packets: u64,
    interfaces: usize,
    out_of_order: u64,
    /// What is not in the output as it was, in words.
    notes: Vec<String>,
    /// What is wrong with the file, in words; `null` if nothing is.
    damage: Option<String>,
}

#[derive(Serialize)]
struct Output {
    path: String,
    packets: u64,
    bytes: u64,
    out_of_order: u64,
    /// What of the inputs is not in it, in words.
    notes: Vec<String>,
}

impl Document {
    fn new(args: &MergeArgs, report: &MergeReport) -> Self {
        let input = |input: &MergedInput| Input {
            path: input.path.display().to_string(),
            packets: input.packets,
            interfaces: input.interfaces,
            out_of_order: input.out_of_order,
            notes: notes(input),
            damage: input.damage.as_ref().map(ToString::to_string),
        };
        Self {
            schema: "wirelane.merge/1",
            command: "merge",
            version: env!("CARGO_PKG_VERSION"),
            inputs: report.inputs.iter().map(input).collect(),
            output: Output {
                path: args.output.display().to_string(),
                packets: report.written.packets,
                bytes: report.written.bytes,
                out_of_order: report.out_of_order,
                notes: report.lost.notes(),
            },
            stopped: report.stopped,
            failure: report.failure.as_ref().map(ToString::to_string),
        }
    }
}

#[cfg(test)]
mod tests {
    use wirelane::mask::Class;
    use wirelane::pcap::{CaptureReader, CaptureWriter, Record, Source, WriterOptions};

    use super::*;

    fn capture(path: &Path, times: &[u64]) {
        let sources = [Source::new("eth0", Class::Rx, Some(1))];
        let options = WriterOptions::of_path(path);
        let mut writer = CaptureWriter::create(path, &sources, options, 0).unwrap();
        for &timestamp in times {
            let direction = Default::default();
            let record =
                Record { interface: 0, timestamp, original_len: 60, direction, data: &[0; 60] };
            writer.write(&record).unwrap();
        }
        writer.finish(&[]).unwrap();
    }

    fn times(path: &Path) -> Vec<u64> {
        let mut reader = CaptureReader::open(path).unwrap();
        let mut times = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            times.push(record.timestamp);
        }
        times
    }

    #[test]
    fn damage_is_merged_up_to_its_place_and_fails() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        capture(&path("a"), &[1, 4]);
        capture(&path("b"), &[2, 3, 5]);
        let inputs = vec![path("a"), path("b")];
        let access = AccessArgs::default();
        let args = MergeArgs { inputs, output: path("out"), compress: None, access, json: false };
        run(&args).unwrap();
        assert_eq!(times(&path("out")), [1, 2, 3, 4, 5]);

        let whole = std::fs::read(path("b")).unwrap();
        std::fs::write(path("b"), &whole[..whole.len() - 1]).unwrap();
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("cut short"), "{error}");
        assert_eq!(times(&path("out")), [1, 2, 3, 4]);
    }

    #[test]
    fn json_and_packets_do_not_share_standard_output() {
        let args = MergeArgs {
            inputs: vec!["a".into()],
            output: "-".into(),
            compress: None,
            access: AccessArgs::default(),
            json: true,
        };
        assert_eq!(run(&args).unwrap_err().kind(), wirelane::ErrorKind::Usage);
    }

    #[test]
    fn document_has_its_keys() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        capture(&path, &[7]);
        let args = MergeArgs {
            inputs: vec![path],
            output: directory.path().join("b"),
            compress: None,
            access: AccessArgs::default(),
            json: true,
        };
        let report = merge_files(&args.inputs, &args.output, &Default::default()).unwrap();
        let value = serde_json::to_value(Document::new(&args, &report)).unwrap();
        assert_eq!(value["schema"], "wirelane.merge/1");
        assert_eq!(value["inputs"][0]["packets"], 1);
        assert!(value["inputs"][0]["damage"].is_null());
        assert_eq!(value["output"]["out_of_order"], 0);
    }
}
