//! Writes rows in a format to a target.

use std::io::{BufWriter, Write as _};

use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{Schema, SchemaRef};
use datafusion::arrow::csv;
use datafusion::arrow::json::LineDelimitedWriter;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use wirelane::Result;

use super::columns;
use super::format::AnswerFormat;
use super::table::TableWriter;
use super::target::{OutputFailure, OutputTarget};

type Buffered = BufWriter<OutputTarget>;

/// The writer of an answer's rows.
pub(crate) struct RowWriter {
    to: FormatWriter,
    schema: SchemaRef,
    failure: OutputFailure,
}

enum FormatWriter {
    Table(TableWriter<Buffered>),
    Json(LineDelimitedWriter<Buffered>),
    Csv(Box<csv::Writer<Buffered>>),
    Parquet(Box<ArrowWriter<OutputTarget>>),
    Stream(Box<StreamWriter<Buffered>>),
    File(Box<FileWriter<Buffered>>),
}

impl RowWriter {
    /// # Errors
    /// The target fails, or the format lacks a type.
    pub(crate) fn new(format: AnswerFormat, target: OutputTarget, schema: &Schema) -> Result<Self> {
        let (failure, is_output) = (target.failure(), target.is_output());
        let schema = columns::schema(schema);
        let buffered = |target| BufWriter::with_capacity(1 << 16, target);
        let to = match format {
            AnswerFormat::Table => FormatWriter::Table(TableWriter::new(buffered(target), &schema)),
            AnswerFormat::Json => FormatWriter::Json(LineDelimitedWriter::new(buffered(target))),
            AnswerFormat::Csv => {
                let mut writer = csv::WriterBuilder::new().build(buffered(target));
                // Writes the names even if there are no rows.
                let empty = RecordBatch::new_empty(SchemaRef::clone(&schema));
                writer.write(&empty).map_err(|error| failure.or(error))?;
                FormatWriter::Csv(Box::new(writer))
            }
            AnswerFormat::Parquet => {
                let level = ZstdLevel::try_new(3).map_err(|error| failure.or(error))?;
                let properties =
                    WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
                let writer =
                    ArrowWriter::try_new(target, SchemaRef::clone(&schema), Some(properties));
                FormatWriter::Parquet(Box::new(writer.map_err(|error| failure.or(error))?))
            }
            AnswerFormat::Arrow if is_output => {
                let writer = StreamWriter::try_new(buffered(target), &schema);
                FormatWriter::Stream(Box::new(writer.map_err(|error| failure.or(error))?))
            }
            AnswerFormat::Arrow => {
                let writer = FileWriter::try_new(buffered(target), &schema);
                FormatWriter::File(Box::new(writer.map_err(|error| failure.or(error))?))
            }
        };
        Ok(Self { to, schema, failure })
    }

    /// # Errors
    /// The target fails.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = columns::batch(batch, &self.schema).map_err(|error| self.failure.or(error))?;
        let written = match &mut self.to {
            FormatWriter::Table(to) => to.write(&batch),
            FormatWriter::Json(to) => to.write(&batch).and_then(|()| Ok(to.get_mut().flush()?)),
            FormatWriter::Csv(to) => to.write(&batch),
            FormatWriter::Parquet(to) => to.write(&batch).map_err(Into::into),
            FormatWriter::Stream(to) => to.write(&batch).and_then(|()| to.flush()),
            FormatWriter::File(to) => to.write(&batch),
        };
        written.map_err(|error| self.failure.or(error))
    }

    /// # Errors
    /// The target fails.
    pub(crate) fn finish(self) -> Result<()> {
        let failure = self.failure;
        let target = match self.to {
            FormatWriter::Table(to) => target(to.finish().map_err(|error| failure.or(error))?),
            FormatWriter::Json(mut to) => {
                to.finish().map_err(|error| failure.or(error))?;
                target(to.into_inner())
            }
            FormatWriter::Csv(to) => target(to.into_inner()),
            FormatWriter::Parquet(to) => Some(to.into_inner().map_err(|error| failure.or(error))?),
            FormatWriter::Stream(to) => target(to.into_inner().map_err(|error| failure.or(error))?),
            FormatWriter::File(to) => target(to.into_inner().map_err(|error| failure.or(error))?),
        };
        target.ok_or_else(|| failure.or("it could not be written"))?.finish()
    }
}

/// The target, if it took all bytes. Otherwise it stores its error.
fn target(buffered: Buffered) -> Option<OutputTarget> {
    buffered.into_inner().ok()
}
