//! How flows are cut into files of Parquet, and whose they are: options of `wirelane-query sink`.

use std::time::Duration;

use clap::Args;
use wirelane::{Error, Result};

use crate::args;

/// Options of files in a directory or an object store.
#[derive(Args, Clone, Debug)]
pub(super) struct FileArgs {
    /// For Parquet: end a file when it is about SIZE large (k, M, G: units of 1024) [default: 128M]
    #[arg(long, value_name = "SIZE", value_parser = args::size, requires = "write", help_heading = "Output")]
    size: Option<u64>,
    /// For Parquet: end a file TIME after its first flow [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = args::duration, requires = "write", help_heading = "Output")]
    rotate: Option<Duration>,
    /// For Parquet: write to the directories host=NAME [default: the name of this host]
    #[arg(long, value_name = "NAME", requires = "write", help_heading = "Output")]
    host: Option<String>,
}

impl FileArgs {
    /// Refuses these options for flows that do not become Parquet.
    ///
    /// # Errors
    /// One of the options is given.
    pub(super) fn check_none(&self) -> Result<()> {
        match self.words().first() {
            None => Ok(()),
            Some(option) => Err(Error::usage(option.clone(), "only files of Parquet have it")
                .help("write to a directory (-w DIR/) or a store (-w s3://BUCKET/PREFIX)")),
        }
    }

    /// The options as arguments of `wirelane-query`.
    pub(super) fn words(&self) -> Vec<String> {
        let size = self.size.map(|bytes| ["--size".to_owned(), bytes.to_string()]);
        let rotate =
            self.rotate.map(|time| ["--rotate".to_owned(), format!("{}ms", time.as_millis())]);
        let host = self.host.clone().map(|name| ["--host".to_owned(), name]);
        [size, rotate, host].into_iter().flatten().flatten().collect()
    }
}
