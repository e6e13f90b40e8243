//! The options of `wirelane flows`.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use wirelane::port::Spec;
use wirelane::{Error, Result};
use wirelane_flow::MeterConfig;
use wirelane_flow::ipfix::Collector;
use wirelane_flow::session::FlowConfig;
use wirelane_store::random_number;

use super::files::FileArgs;
use crate::access::AccessArgs;
use crate::args;
use crate::habits::HabitArgs;
use crate::live::{InputArgs, SessionArgs, VerboseArgs};
use crate::time_span::{self, TimePoint, TimeSpan};

/// Two-way flows of a port, a file or a store: who talked to whom, since when, how much, and how
/// well.
///
/// A terminal gets a table of the conversations with the most bytes, at the end. Elsewhere standard
/// output gets a JSON object per flow, as soon as the flow has ended: by TCP, or when it was silent
/// for --idle-timeout. One that lasts is exported every --active-timeout. ^C ends all flows and
/// prints a summary; SIGUSR1 prints the counters so far. docs/flows.md explains every field.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FlowsArgs {
    /// Ports, such as eth0 or `any`; capture files; or a directory that `wirelane record` has
    /// written. Then a filter, as in `wirelane flows eth0 not port 22`
    #[arg(value_name = "SOURCE")]
    pub(super) words: Vec<OsString>,
    #[command(flatten)]
    pub(super) habits: HabitArgs,
    /// Read packets from FILE instead of a port; - is standard input. All words are a filter then
    #[arg(short = 'r', long, value_name = "FILE")]
    pub(super) read: Option<PathBuf>,
    /// A row for each packet instead of each flow, by the program wirelane-query
    #[arg(long)]
    pub(super) packets: bool,
    /// Also the bytes of each packet, in the column `data`
    #[arg(long, requires = "packets")]
    pub(super) data: bool,
    /// Write flows to FILE; - is standard output. The suffix chooses the format: .json, .jsonl,
    /// .csv. A directory (DIR/) or s3://BUCKET/PREFIX gets Parquet, by the program wirelane-query
    #[arg(short = 'w', long = "write", value_name = "FILE|DIR/|URL", help_heading = "Output")]
    pub(super) write: Option<PathBuf>,
    #[command(flatten)]
    pub(super) files: FileArgs,
    /// Send flows to a collector by IPFIX: udp://HOST:PORT or tcp://HOST:PORT; may be given more
    /// than once
    #[arg(long, value_name = "URL", help_heading = "Output")]
    pub(super) ipfix: Vec<Collector>,
    /// The form of flows on standard output [default: table on a terminal, else json; of packets
    /// json, with -w - arrow]
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    pub(super) format: Option<FlowFormat>,
    /// Rows of the table [default: 20]
    #[arg(long, value_name = "N", value_parser = args::count, help_heading = "Output")]
    top: Option<u64>,
    #[command(flatten)]
    pub(super) access: AccessArgs,
    /// A flow ends when it was silent for TIME [default: 15s]
    #[arg(long, value_name = "TIME", value_parser = args::duration, help_heading = "Flows")]
    idle_timeout: Option<Duration>,
    /// A flow that lasts is exported every TIME [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = args::duration, help_heading = "Flows")]
    active_timeout: Option<Duration>,
    /// At most N flows at one time, about 225 bytes each, with several queues 525. If there are
    /// more, flows that were silent for long are exported early [default: 1000000]
    #[arg(long, value_name = "N", value_parser = args::count, help_heading = "Flows")]
    max_flows: Option<u64>,
    /// From a store, only packets at TIME or later: 14:03 (the last one), -5m,
    /// 2026-11-23T14:03:05Z
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Flows")]
    from: Option<TimePoint>,
    /// From a store, only packets before TIME
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Flows")]
    to: Option<TimePoint>,
    #[command(flatten)]
    pub(super) input: InputArgs,
    #[command(flatten)]
    pub(super) verbose: VerboseArgs,
    #[command(flatten)]
    pub(super) session: SessionArgs,
}

const AFTER_HELP: &str = "\
Examples:
  wirelane flows eth0
  wirelane flows trace.pcapng.zst tcp port 443 -w web.csv
  wirelane flows eth0 --ipfix udp://collector:4739
  wirelane flows eth0 -w flows/
  wirelane flows trace.pcapng --packets -w packets/
  wirelane flows /data/store --from -5m --format json | jq .community_id

Exit status: 0 done, 1 failed, 2 wrong usage.";

/// Formats of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FlowFormat {
    /// The conversations with the most bytes, at the end
    Table,
    /// A JSON object per line
    Json,
    /// Comma-separated values, with a line of names
    Csv,
    /// An Arrow IPC stream, by the program wirelane-query
    Arrow,
}

impl FlowFormat {
    /// The name that `wirelane-query` uses.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
        }
    }
}

impl FlowsArgs {
    /// The ports and files that are named, and the filter.
    ///
    /// # Errors
    /// There is none, or a word is none.
    pub(super) fn sources(&self) -> Result<(Vec<Spec>, Option<String>)> {
        // A word with a slash is a path, even if no file exists there.
        let is_file = |word: &OsStr| {
            let is_path = word.as_encoded_bytes().contains(&b'/');
            word == "-" || is_path || Path::new(word).is_file()
        };
        let (read, netns) = (self.read.as_deref(), &self.session.netns);
        self.habits.split(&self.words, read, netns, &is_file)
    }

    /// The time span to search in a store.
    ///
    /// # Errors
    /// Times that do not exist, or contradict each other.
    pub(super) fn span(&self) -> Result<TimeSpan> {
        TimeSpan::new(self.from, self.to).map_err(time_span::refused)
    }

    /// # Errors
    /// `--from` or `--to` is given, which only a store supports.
    pub(super) fn check_no_span(&self) -> Result<()> {
        let given = self.from.is_some() || self.to.is_some();
        let error = || {
            Error::usage("--from, --to", "they select packets of a store only")
                .help("name a directory that `wirelane record` wrote")
        };
        if given { Err(error()) } else { Ok(()) }
    }

    /// How to meter.
    ///
    /// # Errors
    /// A CPU may not be used.
    pub(super) fn config(&self) -> Result<FlowConfig> {
        Ok(FlowConfig::default()
            .meter(self.meter())
            .max_flows(self.max_flows())
            .single(self.input.single)
            .placement(self.input.placement(&self.session)?)
            .packets(self.session.count)
            .seed(random_number()))
    }

    pub(super) fn meter(&self) -> MeterConfig {
        let (idle, active) = (Duration::from_secs(15), Duration::from_secs(300));
        MeterConfig::default()
            .idle(self.idle_timeout.unwrap_or(idle))
            .active(self.active_timeout.unwrap_or(active))
    }

    pub(super) fn max_flows(&self) -> usize {
        usize::try_from(self.max_flows.unwrap_or(1_000_000)).unwrap_or(usize::MAX)
    }

    /// Rows of the table.
    pub(super) fn rows(&self) -> usize {
        usize::try_from(self.top.unwrap_or(20)).unwrap_or(usize::MAX)
    }

    /// The options that affect flows only, and whether each is given.
    pub(super) fn of_flows(&self) -> impl Iterator<Item = (&'static str, bool)> {
        [
            ("--idle-timeout", self.idle_timeout.is_some()),
            ("--active-timeout", self.active_timeout.is_some()),
            ("--max-flows", self.max_flows.is_some()),
            ("--top", self.top.is_some()),
            ("--ipfix", !self.ipfix.is_empty()),
            ("--format table", self.format == Some(FlowFormat::Table)),
        ]
        .into_iter()
    }

    /// # Errors
    /// Standard output is a terminal, and the format is binary.
    pub(super) fn check_terminal(format: FlowFormat) -> Result<()> {
        if format == FlowFormat::Arrow && io::stdout().is_terminal() {
            let error = Error::usage("standard output", "it is a terminal, which no Arrow is for");
            return Err(error.help("send it to a program, or choose --format json"));
        }
        Ok(())
    }
}
