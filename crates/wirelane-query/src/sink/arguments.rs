//! The arguments of `wirelane-query sink`.

use std::time::Duration;

use clap::Args;
use wirelane::pcap::parse_size;

/// Write flows that come as IPFIX messages on standard input.
///
/// `wirelane flows -w` starts it so. Files are complete or absent: a name appears when all of its file is there.
#[derive(Args, Clone, Debug)]
pub(crate) struct SinkArgs {
    /// A directory, s3://BUCKET/PREFIX, gs://…, az://…, or - for an Arrow IPC stream on standard output
    #[arg(value_name = "DIR|URL|-")]
    pub(crate) to: String,
    /// End a file when it is about so large
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = size)]
    pub(crate) size: usize,
    /// End a file when its first flow came so long ago
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub(crate) rotate: Duration,
    /// Keep so much in memory while the store is away; flows beyond it are counted
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size)]
    pub(crate) spool: usize,
    /// At the end, wait so long for a store that is away
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration)]
    pub(crate) patience: Duration,
    /// The host of the directories host=NAME [default: this one]
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Say what became of the flows as JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing unless something went wrong
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

fn size(text: &str) -> Result<usize, String> {
    parse_size(text)
        .and_then(|size| usize::try_from(size).ok())
        .filter(|size| *size > 0)
        .ok_or_else(|| "write a number of bytes above 0, such as 10M or 1G".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write a time such as 30s, 5m or 1h".to_owned())
}
