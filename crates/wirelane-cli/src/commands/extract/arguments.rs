//! The arguments of `wirelane extract`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use wirelane::{Error, Result};

use crate::access::AccessArgs;
use crate::time_span::{self, TimePoint, TimeSpan};
use crate::{args, stores};

/// Get packets back from what `wirelane record` has written, in order of time.
///
/// EXPR is a tcpdump expression (pcap-filter(7)). The index beside each segment narrows down what
/// has to be read; what is read is filtered exactly. The store may be written to meanwhile: what is
/// on disk already is found.
///
/// If something is damaged, it is named, everything else is found, and the exit status is 1. ^C
/// ends the search: the output then holds what was found so far, and the exit status is 1. SIGUSR1
/// prints the progress.
#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "wirelane extract <DIR>... [EXPR]... <-w FILE|--count|--list|--reindex> [OPTIONS]",
    group = ArgGroup::new("answer").required(true).args(["write", "count", "list", "explain", "reindex"]),
    after_help = AFTER_HELP,
)]
pub(crate) struct ExtractArgs {
    /// Stores, and then the expression, which may be several arguments. Several stores give one
    /// answer
    #[arg(value_name = "DIR|EXPR", required = true)]
    pub(super) arguments: Vec<OsString>,

    /// Only packets at TIME or later: 14:03 (the last one), 14:03:05.5, -5m, 2026-11-23T14:03:05Z,
    /// or without Z in local time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Which packets")]
    pub(super) from: Option<TimePoint>,
    /// Only packets before TIME; a time of day is the first one after --from
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Which packets")]
    pub(super) to: Option<TimePoint>,
    /// Also the other packets of the conversations that match, whatever their time
    #[arg(long, help_heading = "Which packets")]
    pub(super) flow: bool,
    /// Only the first N packets
    #[arg(short = 'c', long = "max", value_name = "N", value_parser = args::count, help_heading = "Which packets")]
    pub(super) most: Option<u64>,

    /// Write the packets to FILE; - is standard output. The suffix chooses the format: .pcap,
    /// .pcapng, and .gz, .lz4 or .zst to compress
    #[arg(short = 'w', long = "write", value_name = "FILE", help_heading = "Answer")]
    pub(super) write: Option<PathBuf>,
    /// Compress with gzip, lz4 or zstd, as in zstd:3,threads=2: a level from the fastest (1, the
    /// default) to the smallest (gzip 9, zstd 22), and how many threads compress. `none` does not
    /// compress
    #[arg(long, value_name = "HOW", value_parser = args::compress, help_heading = "Answer")]
    pub(super) compress: Option<args::Compress>,
    #[command(flatten)]
    pub(super) access: AccessArgs,
    /// Print how many packets there are
    #[arg(long, help_heading = "Answer")]
    pub(super) count: bool,
    /// Print which segments may hold matches, as their indexes tell, and read nothing else. The
    /// packets and bytes are those near possible matches: most of them need not match
    #[arg(long, help_heading = "Answer", conflicts_with = "flow")]
    pub(super) list: bool,
    /// Print what the index is asked, and read nothing
    #[arg(long, help_heading = "Answer")]
    pub(super) explain: bool,
    /// Make lost and damaged indexes anew, also during a recording; no packets are searched
    #[arg(long, conflicts_with_all = ["from", "to", "flow", "rate"], help_heading = "Answer")]
    pub(super) reindex: bool,
    /// Print one JSON object (schema wirelane.extract/1; with --reindex, wirelane.check/1)
    #[arg(long, help_heading = "Answer")]
    pub(super) json: bool,
    /// Print no summary
    #[arg(short, long, help_heading = "Answer")]
    pub(super) quiet: bool,

    /// Read at most SIZE bytes per second, so that recording to the same disk is not disturbed
    #[arg(long, value_name = "SIZE", value_parser = args::size, help_heading = "Machine")]
    pub(super) rate: Option<u64>,
    /// Use at most about SIZE bytes of memory for putting packets in order
    #[arg(long, value_name = "SIZE", value_parser = args::size, default_value = "256M", help_heading = "Machine")]
    pub(super) memory: u64,
}

const AFTER_HELP: &str = "\
Examples:
  wirelane extract /data/store host 10.0.0.1 --from 14:03 --to 14:08 -w incident.pcapng
  wirelane extract /data/a /data/b 'tcp port 443' --from -5m -w - | tcpdump -r -
  wirelane extract /data/store 'host 10.0.0.1 and port 22' --flow -w whole.pcapng.zst
  wirelane extract /data/store --from 2026-11-23T14:00:00Z --count

Exit status: 0 done, 1 failed, or something was damaged, 2 wrong usage.";

/// The stores, the filter expression and the time span of a search.
pub(super) struct SearchArguments {
    pub(super) paths: Vec<PathBuf>,
    pub(super) expression: String,
    pub(super) span: TimeSpan,
}

impl ExtractArgs {
    /// The search that the arguments describe. Times of day are relative to now.
    ///
    /// # Errors
    /// Times that do not exist, or contradict each other.
    pub(super) fn asked(&self) -> Result<SearchArguments> {
        let (paths, expression) = stores::split(&self.arguments)?;
        let span = TimeSpan::new(self.from, self.to).map_err(time_span::refused)?;
        Ok(SearchArguments { paths, expression, span })
    }

    /// # Errors
    /// Arguments contradict each other.
    pub(super) fn check(&self) -> Result<()> {
        for (option, is_given) in
            [("-c", self.most.is_some()), ("--compress", self.compress.is_some())]
                .into_iter()
                .chain(self.access.given())
        {
            if is_given && self.write.is_none() {
                return Err(Error::usage(option, "nothing is written").help("add -w FILE"));
            }
        }
        if self.json && self.write.as_deref().is_some_and(|path| path.as_os_str() == "-") {
            return Err(Error::usage(
                "--json",
                "standard output already takes the packets of -w -",
            )
            .help("write the packets to a file"));
        }
        Ok(())
    }
}
