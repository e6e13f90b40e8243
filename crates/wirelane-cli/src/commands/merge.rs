//! `wirelane merge`: capture files become one, exactly in order of time.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use wirelane::Error;
use wirelane::capture::{MergeReport, merge_files};

/// Merge capture files into one pcapng file, by time.
///
/// Reads pcap and pcapng, plain or compressed with gzip or zstd, such as the files of `wirelane capture --split`. Packets of
/// equal time keep the order in which the files are given. Every interface keeps its description, queue and counters. Of
/// a damaged file everything before the damage is merged; then the exit status is 1.
#[derive(Args, Clone, Debug)]
pub(crate) struct MergeArgs {
    /// Files to merge; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// Write here; `-` is standard output, and .gz or .zst at the end compresses
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Write one JSON object (schema wirelane.merge/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
///
/// # Errors
/// When a file cannot be opened, the output cannot be written, or a file was damaged; the output then holds what was
/// before the damage.
pub(crate) fn run(args: &MergeArgs) -> Result<(), Error> {
    let to_stdout = args.output.as_os_str() == "-";
    if to_stdout && args.json {
        return Err(Error::usage("--json", "standard output already takes the packets of `-w -`")
            .help("write the packets to a file"));
    }
    let report = merge_files(&args.inputs, &args.output)?;
    if args.json {
        let mut text = serde_json::to_string(&Document::new(args, &report))
            .map_err(|error| Error::io("standard output", "write", error.into()))?;
        text.push('\n');
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| Error::io("standard output", "write", error))?;
    } else {
        // Nobody may be there to read it; that is no reason to fail.
        let _ = io::stderr().write_all(summary(args, &report).as_bytes());
    }
    let mut damage = report.inputs.into_iter().filter_map(|input| input.damage);
    match damage.next() {
        None => Ok(()),
        Some(first) => {
            for other in damage {
                let _ = writeln!(io::stderr(), "wirelane: {other}");
            }
            Err(first.into())
        }
    }
}

fn summary(args: &MergeArgs, report: &MergeReport) -> String {
    let mut text = String::new();
    for input in &report.inputs {
        let name = input.path.display();
        text += &format!("{name}: {} packets, {} interfaces", input.packets, input.interfaces);
        if input.out_of_order > 0 {
            text += &format!(", {} older than the packet before them", input.out_of_order);
        }
        text += "\n";
    }
    let written = report.written;
    text +=
        &format!("{}: {} packets, {} bytes", args.output.display(), written.packets, written.bytes);
    if report.out_of_order > 0 {
        text += &format!(
            ", {} not in order of time, as in the files they come from",
            report.out_of_order
        );
    }
    text += "\n";
    text
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    command: &'static str,
    version: &'static str,
    inputs: Vec<Input>,
    output: Output,
}

#[derive(Serialize)]
struct Input {
    path: String,
    packets: u64,
    interfaces: usize,
    out_of_order: u64,
    /// What is wrong with the file, in words; `null` if nothing is.
    damage: Option<String>,
}

#[derive(Serialize)]
struct Output {
    path: String,
    packets: u64,
    bytes: u64,
    out_of_order: u64,
}

impl Document {
    fn new(args: &MergeArgs, report: &MergeReport) -> Self {
        let input = |input: &wirelane::capture::MergedInput| Input {
            path: input.path.display().to_string(),
            packets: input.packets,
            interfaces: input.interfaces,
            out_of_order: input.out_of_order,
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
            },
        }
    }
}
