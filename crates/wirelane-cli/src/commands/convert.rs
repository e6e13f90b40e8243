//! `wirelane convert`: a capture file in another format or compression, or a part of it.

use std::path::PathBuf;

use clap::Args;
use wirelane::filter::{Engine, Filter};
use wirelane::halt::Halt;
use wirelane::mask::Class;
use wirelane::pcap::{Direction, MergeControl, Record, Source, Verdict};
use wirelane::port::OpenOptions;
use wirelane::{Error, Result};
use wirelane_filter::{Metadata, Packet};

use super::copying::Copying;
use crate::access::AccessArgs;
use crate::args;
use crate::steering;
use crate::time_span::{self, TimePoint, TimeSpan};

/// Write a capture file in another format or compression, whole or in part.
///
/// The suffix of OUT chooses both: .pcap, .pcapng, and .gz, .lz4 or .zst to compress. IN may be any
/// of them, whatever its name. Packets keep their order. Comments, interfaces and their counters,
/// other options, names, secrets for decryption and custom blocks are kept; a pcap file has no
/// place for them, and the summary says what it lacks.
///
/// If IN is damaged, everything before the damage is written and the exit status is 1. ^C ends the
/// command: OUT then holds what was written so far, and the exit status is 1. SIGUSR1 prints the
/// progress.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConvertArgs {
    /// The file to read; `-` is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The file to write; `-` is standard output, as pcapng
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Only packets that match: a tcpdump expression, or the output of `tcpdump -ddd`
    #[arg(short = 'f', long = "filter", value_name = "EXPR", allow_hyphen_values = true)]
    filter: Option<String>,
    /// Only packets at TIME or later: 14:03 (the last one), 14:03:05.5, -5m, 2026-11-23T14:03:05Z,
    /// or without Z in local time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<TimePoint>,
    /// Only packets before TIME; a time of day is the first one after --from
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<TimePoint>,
    /// Only the first N packets
    #[arg(short, long, value_name = "N", value_parser = args::count)]
    count: Option<u64>,
    /// Keep at most N bytes of each packet
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    snaplen: Option<u32>,

    /// Compress with gzip, lz4 or zstd, as in zstd:3,threads=2: a level from the fastest (1, the
    /// default) to the smallest (gzip 9, zstd 22), and how many threads compress. `none` does not
    /// compress
    #[arg(long, value_name = "HOW", value_parser = args::compress, help_heading = "Output")]
    compress: Option<args::Compress>,
    #[command(flatten)]
    comment: args::CommentArgs,
    #[command(flatten)]
    access: AccessArgs,
    /// Print one JSON object (schema wirelane.convert/1)
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Print no summary
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
}

/// Runs the command.
///
/// # Errors
/// As [`Copying::run`]; the filter or the times mean nothing.
pub(crate) fn run(args: &ConvertArgs) -> Result<()> {
    let copying = Copying {
        command: "convert",
        schema: "wirelane.convert/1",
        inputs: std::slice::from_ref(&args.input),
        output: &args.output,
        json: args.json,
        quiet: args.quiet,
    };
    copying.check()?;
    let mut options = args::writer(&args.output, args.compress)?;
    options.access = args.access.access()?;
    args.comment.add_to(&mut options.section);
    let span = TimeSpan::new(args.from, args.to).map_err(time_span::refused)?;
    let filter = args.filter.as_deref().map(steering::filter).transpose()?;
    let mut sieve = PacketSelector { span, filter, engines: Vec::new(), failure: None };
    let halt = Halt::by_signals()?;
    let control = MergeControl::new(halt).options(options).snaplen(args.snaplen).limit(args.count);
    let copied = copying.run(&control, &mut |record, source| sieve.verdict(record, source));
    sieve.failure.map_or(copied, Err)
}

/// Takes packets by time and filter.
struct PacketSelector {
    span: TimeSpan,
    filter: Option<Filter>,
    /// The filter, compiled for each link type so far.
    engines: Vec<(u16, Engine)>,
    /// Why the filter cannot run on the next link type, which ends the copy.
    failure: Option<Error>,
}

impl PacketSelector {
    fn verdict(&mut self, record: &Record<'_>, source: &Source) -> Verdict {
        let time = record.timestamp;
        let TimeSpan { from, to } = self.span;
        if from.is_some_and(|from| time < from) || to.is_some_and(|to| time >= to) {
            return Verdict::Leave;
        }
        match self.accepts(record, source) {
            Ok(true) => Verdict::Take,
            Ok(false) => Verdict::Leave,
            Err(error) => {
                self.failure = Some(error);
                Verdict::End
            }
        }
    }

    fn accepts(&mut self, record: &Record<'_>, source: &Source) -> Result<bool> {
        let Some(filter) = &self.filter else { return Ok(true) };
        let known = self.engines.iter().position(|(link_type, _)| *link_type == source.link_type);
        let place = match known {
            Some(place) => place,
            None => {
                let program = filter.program(source.link_type, OpenOptions::MAX_SNAPLEN)?;
                self.engines.push((source.link_type, Engine::new(&program, 0)?));
                self.engines.len() - 1
            }
        };
        let is_sent = match source.class {
            Some(class) => class == Class::Tx,
            None => record.direction == Direction::Outbound,
        };
        let metadata = Metadata {
            queue: source.queue.unwrap_or_default(),
            packet_type: if is_sent { Metadata::OUTGOING } else { 0 },
            interface_index: 0,
        };
        let packet = Packet { data: record.data, wire_len: record.original_len, metadata };
        Ok(self.engines.get(place).is_some_and(|(_, engine)| engine.run(&packet) > 0))
    }
}
