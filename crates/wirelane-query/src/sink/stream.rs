//! Rows on standard output, for other programs.

use std::io::Write;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use clap::ValueEnum;
use datafusion::arrow::csv::WriterBuilder;
use datafusion::arrow::json::LineDelimitedWriter;
use wirelane::{Error, Result};

use super::counts::SinkCounts;
use super::rows::PendingRows;

/// Rows that are written at once.
const BATCH: usize = 8192;

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    /// An Arrow IPC stream
    Arrow,
    /// An object a line
    Json,
    /// With a line of names
    Csv,
}

/// The writing end.
pub(crate) struct RowStream<R: PendingRows, W: Write> {
    waiting: R,
    encoder: RowEncoder,
    /// Encoded bytes.
    buffer: Vec<u8>,
    to: W,
    counts: SinkCounts,
}

enum RowEncoder {
    Arrow(Box<StreamWriter<Vec<u8>>>),
    Json,
    Csv,
}

impl<R: PendingRows, W: Write> RowStream<R, W> {
    /// A stream of rows with the columns of `rows`.
    pub(crate) fn new(rows: R, format: RowFormat, to: W) -> Result<Self> {
        let schema = rows.schema();
        let mut buffer = Vec::new();
        let encoder = match format {
            RowFormat::Arrow => {
                let writer = StreamWriter::try_new(Vec::new(), &schema).map_err(failed)?;
                RowEncoder::Arrow(Box::new(writer))
            }
            RowFormat::Json => RowEncoder::Json,
            RowFormat::Csv => {
                // Writes the names even if there are no rows.
                let mut writer = WriterBuilder::new().build(&mut buffer);
                writer.write(&RecordBatch::new_empty(schema)).map_err(failed)?;
                drop(writer);
                RowEncoder::Csv
            }
        };
        Ok(Self { waiting: rows, encoder, buffer, to, counts: SinkCounts::default() })
    }

    pub(crate) fn add(&mut self, parts: Vec<R::Part>) -> Result<()> {
        parts.into_iter().for_each(|part| self.waiting.add(part));
        if self.waiting.len() < BATCH { Ok(()) } else { self.flush() }
    }

    /// Writes the waiting rows.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let fresh = self.waiting.fresh();
        let rows = std::mem::replace(&mut self.waiting, fresh);
        let written = self.encode(&rows).and_then(|()| self.write());
        match written {
            Ok(()) => self.counts.rows += rows.len() as u64,
            Err(_) => self.counts.lost += rows.len() as u64,
        }
        written
    }

    /// Writes the waiting rows and the end of the stream.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.flush()?;
        if let RowEncoder::Arrow(writer) = &mut self.encoder {
            writer.finish().map_err(failed)?;
            self.buffer.append(writer.get_mut());
        }
        self.write()
    }

    /// The counts so far.
    pub(crate) fn counts(self) -> SinkCounts {
        self.counts
    }

    fn encode(&mut self, rows: &R) -> Result<()> {
        for batch in rows.batches() {
            let encoded = batch.and_then(|batch| self.encoder.encode(&batch, &mut self.buffer));
            encoded.map_err(failed)?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let Self { buffer, to, counts, .. } = self;
        let written = to.write_all(buffer).and_then(|()| to.flush());
        written.map_err(|error| Error::io("standard output", "write", error))?;
        counts.bytes += buffer.len() as u64;
        buffer.clear();
        Ok(())
    }
}

impl RowEncoder {
    fn encode(&mut self, batch: &RecordBatch, to: &mut Vec<u8>) -> Result<(), ArrowError> {
        match self {
            Self::Arrow(writer) => {
                writer.write(batch)?;
                to.append(writer.get_mut());
                Ok(())
            }
            Self::Json => {
                let mut writer = LineDelimitedWriter::new(to);
                writer.write(batch)?;
                writer.finish()
            }
            Self::Csv => WriterBuilder::new().with_header(false).build(to).write(batch),
        }
    }
}

fn failed(error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, error) => Error::io("standard output", "write", error),
        error => Error::failed("a stream of rows", error.to_string()),
    }
}
