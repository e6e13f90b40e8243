//! Copies capture files into one: the common part of `merge` and `convert`.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use wirelane::pcap::pcapng::MAX_PACKET;
use wirelane::pcap::{
    MergeControl, MergeReport, MergedInput, Record, Source, Verdict, merge_selected,
};
use wirelane::{Error, Result};
use wirelane_wire::text::printable_lines;

use crate::output::{self, counted, grouped, name_of, plural, sized};
use crate::{background, overwrite};

/// Which packets are copied.
pub(crate) type Select<'a> = dyn FnMut(&Record<'_>, &Source) -> Verdict + Send + 'a;

/// Capture files, and the file that they are copied into.
pub(crate) struct Copying<'a> {
    /// The name of the command.
    pub(crate) command: &'static str,
    /// The schema of its JSON object.
    pub(crate) schema: &'static str,
    pub(crate) inputs: &'a [PathBuf],
    pub(crate) output: &'a Path,
    /// Print a JSON object instead of a summary.
    pub(crate) json: bool,
    /// Print no summary.
    pub(crate) quiet: bool,
}

impl Copying<'_> {
    /// # Errors
    /// Options contradict each other; the output is one of the inputs.
    pub(crate) fn check(&self) -> Result<()> {
        if self.json && self.output.as_os_str() == "-" {
            return Err(Error::usage("--json", "standard output already takes the packets of `-`")
                .help("write the packets to a file"));
        }
        overwrite::refuse(self.output, self.inputs)
    }

    /// Copies the packets that `select` takes, prints the progress on SIGUSR1, and prints a
    /// summary. Prints all errors but the first.
    ///
    /// # Errors
    /// A file cannot be opened, the output cannot be written, a file is damaged, or a signal ended
    /// the copy. The output then holds the packets before that.
    pub(crate) fn run(&self, control: &MergeControl, select: &mut Select<'_>) -> Result<()> {
        let report = self.watch(control, select)?;
        if self.json {
            output::json(&Document::new(self, &report))?;
        } else if !self.quiet {
            // The reader may be gone; that is no reason to fail.
            let summary = self.summary(&report);
            let _ = io::stderr().write_all(printable_lines(&summary).as_bytes());
        }
        let name = name_of(self.output, "standard output");
        let stopped = (report.stopped && report.failure.is_none()).then(|| {
            let packets = counted(report.written.packets, "packet");
            let cause = format!("it has only the first {packets}, because a signal ended ");
            Error::failed(name, cause + "the " + self.command)
                .help(format!("{} again", self.command))
        });
        let damage = report.inputs.into_iter().filter_map(|input| input.damage);
        let errors = report.failure.into_iter().chain(damage).map(Error::from).chain(stopped);
        output::all_but_first(errors)
    }

    fn watch(&self, control: &MergeControl, select: &mut Select<'_>) -> Result<MergeReport> {
        let copy = || Ok(merge_selected(self.inputs, self.output, control, select)?);
        background::run("wl-merge", copy, || {
            let (taken, written) = control.packets();
            output::line(format_args!("so far: {taken} packets taken, {written} written"));
        })
    }

    fn summary(&self, report: &MergeReport) -> String {
        let mut text = String::new();
        for input in &report.inputs {
            let name = name_of(&input.path, "standard input");
            let interfaces = plural(input.interfaces as u64, "interface");
            text += &format!("{name}: {}, {interfaces}", counted(input.packets, "packet"));
            if input.left > 0 {
                text += &format!(", {} left out", grouped(input.left));
            }
            match input.omitted {
                Some(0) => {}
                Some(count) => text += &format!(", {} behind them omitted", grouped(count)),
                None => text += ", the rest omitted",
            }
            if input.out_of_order > 0 {
                text += &format!(", {} out of order", grouped(input.out_of_order));
            }
            text += "\n";
            for note in notes(input) {
                text += &format!("  note: {note}\n");
            }
        }
        let name = name_of(self.output, "standard output");
        let bytes = sized(report.written.bytes);
        text += &format!("{name}: {}, {bytes}", counted(report.written.packets, "packet"));
        if report.out_of_order > 0 {
            let count = grouped(report.out_of_order);
            text += &format!(", {count} out of order, as in the input");
        }
        text += "\n";
        for note in written_notes(report) {
            text += &format!("  note: {note}\n");
        }
        text
    }
}

/// Notes on how the packets in the output differ from the input.
fn notes(input: &MergedInput) -> Vec<String> {
    let mut notes = input.odd_times.notes();
    if input.cut > 0 {
        let packets = counted(input.cut, "packet");
        notes.push(format!("{packets} longer than {MAX_PACKET} bytes cut to that length"));
    }
    notes
}

/// Notes on metadata that the output lacks, and on less memory than requested.
fn written_notes(report: &MergeReport) -> Vec<String> {
    report.lost.notes().into_iter().chain(report.shortage.clone()).collect()
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    command: &'static str,
    version: &'static str,
    inputs: Vec<CopyInput>,
    output: CopyOutput,
    /// Whether a signal ended the copy.
    stopped: bool,
    /// Why the output is incomplete, in words; `null` if it is complete.
    failure: Option<String>,
}

#[derive(Serialize)]
struct CopyInput {
    path: String,
    packets: u64,
    /// Packets that the filter or the times exclude.
    left_out: u64,
    /// Packets after the limit `-c`; `null` if their number is unknown.
    omitted: Option<u64>,
    interfaces: usize,
    out_of_order: u64,
    /// How the packets in the output differ from the input, in words.
    notes: Vec<String>,
    /// The damage to the file, in words; `null` if there is none.
    damage: Option<String>,
}

#[derive(Serialize)]
struct CopyOutput {
    path: String,
    packets: u64,
    bytes: u64,
    out_of_order: u64,
    /// Sentences on metadata of the inputs that it lacks, and on less memory than requested.
    notes: Vec<String>,
}

impl Document {
    fn new(copying: &Copying<'_>, report: &MergeReport) -> Self {
        let input = |input: &MergedInput| CopyInput {
            path: input.path.display().to_string(),
            packets: input.packets,
            left_out: input.left,
            omitted: input.omitted,
            interfaces: input.interfaces,
            out_of_order: input.out_of_order,
            notes: notes(input),
            damage: input.damage.as_ref().map(ToString::to_string),
        };
        Self {
            schema: copying.schema,
            command: copying.command,
            version: env!("CARGO_PKG_VERSION"),
            inputs: report.inputs.iter().map(input).collect(),
            output: CopyOutput {
                path: copying.output.display().to_string(),
                packets: report.written.packets,
                bytes: report.written.bytes,
                out_of_order: report.out_of_order,
                notes: written_notes(report),
            },
            stopped: report.stopped,
            failure: report.failure.as_ref().map(ToString::to_string),
        }
    }
}

#[cfg(test)]
mod tests {
    use wirelane::mask::Class;
    use wirelane::pcap::{CaptureReader, CaptureWriter, WriterOptions, merge_files};

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

    fn copying<'a>(inputs: &'a [PathBuf], output: &'a Path, json: bool) -> Copying<'a> {
        let (command, schema) = ("merge", "wirelane.merge/1");
        Copying { command, schema, inputs, output, json, quiet: true }
    }

    #[test]
    fn damage_is_copied_up_to_its_place_and_fails() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        capture(&path("a"), &[1, 4]);
        capture(&path("b"), &[2, 3, 5]);
        let inputs = vec![path("a"), path("b")];
        let output = path("out");
        let copying = copying(&inputs, &output, false);
        let run = || copying.run(&MergeControl::default(), &mut |_, _| Verdict::Take);
        run().unwrap();
        assert_eq!(times(&path("out")), [1, 2, 3, 4, 5]);

        let whole = std::fs::read(path("b")).unwrap();
        std::fs::write(path("b"), &whole[..whole.len() - 1]).unwrap();
        let error = run().unwrap_err().to_string();
        assert!(error.contains("cut short"), "{error}");
        assert_eq!(times(&path("out")), [1, 2, 3, 4]);
    }

    #[test]
    fn json_and_packets_do_not_share_standard_output() {
        let error = copying(&["a".into()], Path::new("-"), true).check().unwrap_err();
        assert_eq!(error.kind(), wirelane::ErrorKind::Usage);
    }

    #[test]
    fn document_has_its_keys() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        capture(&path, &[7]);
        let (inputs, output) = ([path], directory.path().join("b"));
        let copying = copying(&inputs, &output, true);
        let report = merge_files(copying.inputs, copying.output, &Default::default()).unwrap();
        let value = serde_json::to_value(Document::new(&copying, &report)).unwrap();
        assert_eq!(value["schema"], "wirelane.merge/1");
        assert_eq!(
            (&value["inputs"][0]["packets"], &value["inputs"][0]["left_out"]),
            (&1.into(), &0.into())
        );
        assert!(value["inputs"][0]["damage"].is_null());
        assert_eq!(value["output"]["out_of_order"], 0);
    }
}
