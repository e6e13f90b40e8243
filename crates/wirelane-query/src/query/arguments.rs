//! The arguments of `wirelane-query query`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use wirelane::pcap::parse_size;

use super::output::AnswerFormat;
use super::span::{TimePoint, moment};
use crate::cluster::SchedulerAddress;

/// Ask flows and packets by SQL.
///
/// Table `flows` has the rows of Parquet files that `wirelane flows -w DIR/` wrote. Table `packets`
/// has the packets of capture files, of directories that `wirelane record` wrote, and of Parquet
/// files that `wirelane flows --packets -w DIR/` wrote. Without SQL, a terminal gets a shell;
/// otherwise SQL is read from standard input.
#[derive(Args, Clone, Debug)]
pub(crate) struct QueryArgs {
    /// SQL, or the name of a ready query; then directories, files, s3://BUCKET/PREFIX, gs://…,
    /// az://…
    #[arg(value_name = "SQL|NAME|SOURCE")]
    pub(crate) words: Vec<OsString>,
    /// Write rows in this format [default: what the name of the file says, or a table]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<AnswerFormat>,
    /// Write to this file; it has its name when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Run the query, and tell how: operators, files and bytes that were read
    #[arg(long)]
    pub(crate) explain: bool,
    /// List the ready queries
    #[arg(long)]
    pub(crate) list: bool,
    /// Of a ready query: at most N rows
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) top: u64,
    /// Of a ready query: flows that began at this time or later (2026-11-23T14:03:05Z, -5m)
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    pub(crate) from: Option<TimePoint>,
    /// Of a ready query: flows that began before this time
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    pub(crate) to: Option<TimePoint>,
    /// Of timeline: the length of a step [default: about a sixtieth of all]
    #[arg(long, value_name = "TIME", value_parser = bucket)]
    pub(crate) bucket: Option<Duration>,
    /// Of a ready query: draw it, too
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Have a cluster run it: the address of its scheduler
    #[arg(long, value_name = "df://HOST:PORT")]
    pub(crate) cluster: Option<SchedulerAddress>,
    /// Take so much memory at most; what does not fit goes to the temporary directory [default:
    /// half of what is available]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) memory: Option<usize>,
}

fn size(text: &str) -> Result<usize, String> {
    parse_size(text)
        .and_then(|size| usize::try_from(size).ok())
        .filter(|size| *size >= 64 << 20)
        .ok_or_else(|| "write a number of bytes from 64M on, such as 500M or 4G".to_owned())
}

fn bucket(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .ok()
        .filter(|bucket| !bucket.is_zero() && *bucket < Duration::from_secs(1 << 32))
        .ok_or_else(|| "write a time such as 100ms, 10s or 5m".to_owned())
}
