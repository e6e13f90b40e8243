//! The options of `wirelane flows`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use wirelane::{Error, Result};
use wirelane_flow::ipfix::Collector;
use wirelane_flow::session::FlowConfig;
use wirelane_flow::{MeterConfig, TextFormat};
use wirelane_store::random_number;

use super::files::FileArgs;
use crate::access::AccessArgs;
use crate::args;
use crate::habits::HabitArgs;
use crate::look::LookArgs;
use crate::moment::{Moment, Span, moment};
use crate::session::{SessionArgs, VerboseArgs};

/// Two-way flows of a port, a file or a store: who talked to whom, since when, how much, and how well.
///
/// A terminal gets a table of the conversations with the most bytes, at the end. Elsewhere standard output gets a
/// JSON object per flow, as soon as the flow has ended: by TCP, or when it was silent for --idle-timeout. One that
/// lasts is exported every --active-timeout. ^C ends all flows and prints a summary; SIGUSR1 prints the counters so
/// far. docs/flows.md explains every field.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FlowsArgs {
    /// Ports, such as eth0 or `any`; capture files; or a directory that `wirelane record` has written. Then a
    /// filter, as in `wirelane flows eth0 not port 22`
    #[arg(value_name = "SOURCE")]
    pub(super) words: Vec<OsString>,
    #[command(flatten)]
    pub(super) habits: HabitArgs,
    /// Read packets from FILE instead of a port; - is standard input. All words are a filter then
    #[arg(short = 'r', long, value_name = "FILE")]
    pub(super) read: Option<PathBuf>,
    /// Write flows to FILE; - is standard output. The suffix chooses the format: .json, .jsonl, .csv. A directory (DIR/)
    /// or s3://BUCKET/PREFIX gets Parquet, by the program wirelane-query
    #[arg(short = 'w', long = "write", value_name = "FILE|DIR/|URL", help_heading = "Output")]
    pub(super) write: Option<PathBuf>,
    #[command(flatten)]
    pub(super) files: FileArgs,
    /// Send flows to a collector by IPFIX: udp://HOST:PORT or tcp://HOST:PORT; may be given more than once
    #[arg(long, value_name = "URL", help_heading = "Output")]
    pub(super) ipfix: Vec<Collector>,
    /// What flows become on standard output [default: table on a terminal, else json]
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    pub(super) format: Option<Format>,
    /// Rows of the table
    #[arg(long, value_name = "N", value_parser = args::count, default_value = "20", help_heading = "Output")]
    pub(super) top: u64,
    #[command(flatten)]
    pub(super) access: AccessArgs,
    /// A flow ends when it was silent for TIME
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "15s", help_heading = "Flows")]
    idle_timeout: Duration,
    /// A flow that lasts is exported every TIME
    #[arg(long, value_name = "TIME", value_parser = args::duration, default_value = "5m", help_heading = "Flows")]
    active_timeout: Duration,
    /// At most N flows at one time, about 225 bytes each. For more, those that were silent for long are exported
    /// early
    #[arg(long, value_name = "N", value_parser = args::count, default_value = "1000000", help_heading = "Flows")]
    max_flows: u64,
    /// Of a store, not the packets before TIME: 14:03 (the last one), -5m, 2026-11-23T14:03:05Z
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true, help_heading = "Flows")]
    from: Option<Moment>,
    /// Of a store, not the packets at TIME and later
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true, help_heading = "Flows")]
    to: Option<Moment>,
    #[command(flatten)]
    pub(super) look: LookArgs,
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
  wirelane flows /data/store --from -5m --format json | jq .community_id

Exit status: 0 done, 1 failed, 2 wrong usage.";

/// What flows become on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// The conversations with the most bytes, at the end
    Table,
    /// A JSON object per line
    Json,
    /// Comma-separated values, with a line of names
    Csv,
}

impl Format {
    /// `None` for a table.
    pub(super) fn text(self) -> Option<TextFormat> {
        match self {
            Self::Table => None,
            Self::Json => Some(TextFormat::JsonLines),
            Self::Csv => Some(TextFormat::Csv),
        }
    }
}

impl FlowsArgs {
    /// The time that is asked for of a store.
    ///
    /// # Errors
    /// Times that do not exist, or contradict each other.
    pub(super) fn span(&self) -> Result<Span> {
        Span::new(self.from, self.to).map_err(|cause| Error::usage("time", cause))
    }

    /// # Errors
    /// Times that only a store knows.
    pub(super) fn check_no_span(&self) -> Result<()> {
        let given = self.from.is_some() || self.to.is_some();
        let error = || {
            Error::usage("--from, --to", "only what `wirelane record` has written is found by time")
        };
        if given { Err(error()) } else { Ok(()) }
    }

    /// How to meter.
    ///
    /// # Errors
    /// A CPU may not be used.
    pub(super) fn config(&self) -> Result<FlowConfig> {
        Ok(FlowConfig {
            meter: self.meter(),
            max_flows: self.max_flows(),
            single: self.look.single,
            placement: self.look.placement(&self.session)?,
            packets: self.session.count,
            seed: random_number(),
        })
    }

    pub(super) fn meter(&self) -> MeterConfig {
        MeterConfig { idle: self.idle_timeout, active: self.active_timeout }
    }

    pub(super) fn max_flows(&self) -> usize {
        usize::try_from(self.max_flows).unwrap_or(usize::MAX)
    }
}
