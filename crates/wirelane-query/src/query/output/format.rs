//! The formats of answers.

use std::path::Path;

use clap::ValueEnum;
use wirelane::{Error, Result};

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerFormat {
    /// Columns for people
    Table,
    /// An object a line
    Json,
    /// With a line of names
    Csv,
    /// Compressed by zstd
    Parquet,
    /// Arrow IPC: a stream on standard output, a file otherwise
    Arrow,
}

impl AnswerFormat {
    /// The format that the suffix of a file names.
    ///
    /// # Errors
    /// The suffix names no format.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|suffix| suffix.to_str()) {
            Some("txt") => Ok(Self::Table),
            Some("json" | "jsonl" | "ndjson") => Ok(Self::Json),
            Some("csv") => Ok(Self::Csv),
            Some("parquet") => Ok(Self::Parquet),
            Some("arrow" | "feather" | "ipc") => Ok(Self::Arrow),
            _ => Err(Error::usage(path.display().to_string(), "the suffix names no format")
                .help("end the name with .json, .csv, .parquet, .arrow or .txt, or add --format")),
        }
    }

    /// Whether a terminal cannot show it.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }
}
