//! `wirelane merge`: capture files become one, exactly in order of time.

use std::path::PathBuf;

use clap::Args;
use wirelane::Result;
use wirelane::halt::Halt;
use wirelane::pcap::{MergeControl, Verdict};

use super::copying::Copying;
use crate::access::AccessArgs;
use crate::args;

/// Merge capture files into one, in order of time.
///
/// Reads pcap and pcapng, plain or compressed with gzip, lz4 or zstd, such as the files of
/// `wirelane capture --split`. Packets with equal times keep the order in which the files are
/// given. Every interface keeps its description, queue and counters. Comments, other options,
/// names, secrets for decryption and custom blocks are kept. A pcap file (-w all.pcap) has one link
/// type and none of these; the summary says what is left out.
///
/// If a file is damaged, everything before the damage is merged and the exit status is 1. ^C ends
/// the merge: the output then holds what was merged so far, and the exit status is 1. SIGUSR1
/// prints the progress.
#[derive(Args, Clone, Debug)]
pub(crate) struct MergeArgs {
    /// Files to merge; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// Write to FILE; `-` is standard output, and the suffix .gz, .lz4 or .zst compresses
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub(crate) output: PathBuf,

    /// Compress with gzip, lz4 or zstd, as in zstd:3,threads=2: a level from the fastest (1, the
    /// default) to the smallest (gzip 9, zstd 22), and how many threads compress. `none` does not
    /// compress
    #[arg(long, value_name = "HOW", value_parser = args::compress)]
    pub(crate) compress: Option<args::Compress>,

    #[command(flatten)]
    comment: args::CommentArgs,
    #[command(flatten)]
    access: AccessArgs,

    /// Print one JSON object (schema wirelane.merge/1)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
///
/// # Errors
/// As [`Copying::run`].
pub(crate) fn run(args: &MergeArgs) -> Result<()> {
    let copying = Copying {
        command: "merge",
        schema: "wirelane.merge/1",
        inputs: &args.inputs,
        output: &args.output,
        json: args.json,
        quiet: false,
    };
    copying.check()?;
    let mut options = args::writer(&args.output, args.compress)?;
    options.access = args.access.access()?;
    args.comment.add_to(&mut options.section);
    let halt = Halt::by_signals()?;
    let control = MergeControl::new(halt).options(options);
    copying.run(&control, &mut |_, _| Verdict::Take)
}
