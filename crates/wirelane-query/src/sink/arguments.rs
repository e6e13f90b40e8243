//! The arguments of `wirelane-query sink`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use wirelane::pcap::parse_size;
use wirelane::{Error, Result};

use super::stream::RowFormat;

/// Write flows that come as IPFIX messages on standard input, or packets of a capture.
///
/// `wirelane flows -w` starts it so. Files are complete or absent: a name appears when all of its
/// file is there.
#[derive(Args, Clone, Debug)]
pub(crate) struct SinkArgs {
    /// A directory, s3://BUCKET/PREFIX, gs://…, az://…, or - for a stream on standard output
    #[arg(value_name = "DIR|URL|-")]
    pub(crate) to: String,
    /// A row for each packet of a capture file on standard input: pcap or pcapng, compressed or not
    #[arg(long)]
    pub(crate) packets: bool,
    /// Read the capture from FILE
    #[arg(short = 'r', long, value_name = "FILE", requires = "packets")]
    pub(crate) read: Option<PathBuf>,
    /// With the bytes of packets, as column `data`
    #[arg(long, requires = "packets")]
    pub(crate) data: bool,
    /// End after N packets
    #[arg(short = 'c', long, value_name = "N", requires = "packets")]
    pub(crate) count: Option<u64>,
    /// What rows become on standard output
    #[arg(long, value_name = "FORMAT", default_value = "arrow")]
    pub(crate) format: RowFormat,
    /// End a file when it is about SIZE large
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = size)]
    pub(crate) size: usize,
    /// End a file TIME after its first row
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub(crate) rotate: Duration,
    /// Keep at most SIZE in memory while the store is away; rows beyond it are counted
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size)]
    pub(crate) spool: usize,
    /// At the end, wait at most TIME for a store that is away
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration)]
    pub(crate) patience: Duration,
    /// The host of the directories host=NAME [default: this one]
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
    /// Say what became of the rows as JSON on standard output; on standard error if rows go there
    #[arg(long)]
    pub(crate) json: bool,
    /// Say nothing unless something went wrong
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl SinkArgs {
    pub(crate) fn is_stream(&self) -> bool {
        self.to == "-"
    }

    /// # Errors
    /// The options contradict each other.
    pub(crate) fn check(&self) -> Result<()> {
        if self.format != RowFormat::Arrow && !self.is_stream() {
            let error = Error::usage("--format", "files are Parquet");
            return Err(error.help("write to standard output (-)"));
        }
        Ok(())
    }
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
