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
use super::format::Format;
use super::table::Table;
use super::target::{Failure, Target};

type Buffered = BufWriter<Target>;

/// The writer of an answer's rows.
pub(crate) struct Writer {
    to: To,
    schema: SchemaRef,
    failure: Failure,
}

enum To {
    Table(Table<Buffered>),
    Json(LineDelimitedWriter<Buffered>),
    Csv(Box<csv::Writer<Buffered>>),
    Parquet(Box<ArrowWriter<Target>>),
    Stream(Box<StreamWriter<Buffered>>),
    File(Box<FileWriter<Buffered>>),
}

impl Writer {
    /// # Errors
    /// The target fails, or the format lacks a type.
    pub(crate) fn new(format: Format, target: Target, schema: &Schema) -> Result<Self> {
        let (failure, is_output) = (target.failure(), target.is_output());
        let schema = columns::schema(schema);
        let buffered = |target| BufWriter::with_capacity(1 << 16, target);
        let to = match format {
            Format::Table => To::Table(Table::new(buffered(target), &schema)),
            Format::Json => To::Json(LineDelimitedWriter::new(buffered(target))),
            Format::Csv => {
                let mut writer = csv::WriterBuilder::new().build(buffered(target));
                // Writes the names even if there are no rows.
                let empty = RecordBatch::new_empty(SchemaRef::clone(&schema));
                writer.write(&empty).map_err(|error| failure.or(error))?;
                To::Csv(Box::new(writer))
            }
            Format::Parquet => {
                let level = ZstdLevel::try_new(3).map_err(|error| failure.or(error))?;
                let properties =
                    WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
                let writer =
                    ArrowWriter::try_new(target, SchemaRef::clone(&schema), Some(properties));
                To::Parquet(Box::new(writer.map_err(|error| failure.or(error))?))
            }
            Format::Arrow if is_output => {
                let writer = StreamWriter::try_new(buffered(target), &schema);
                To::Stream(Box::new(writer.map_err(|error| failure.or(error))?))
            }
            Format::Arrow => {
                let writer = FileWriter::try_new(buffered(target), &schema);
                To::File(Box::new(writer.map_err(|error| failure.or(error))?))
            }
        };
        Ok(Self { to, schema, failure })
    }

    /// # Errors
    /// The target fails.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = columns::batch(batch, &self.schema).map_err(|error| self.failure.or(error))?;
        let written = match &mut self.to {
            To::Table(to) => to.write(&batch),
            To::Json(to) => to.write(&batch).and_then(|()| Ok(to.get_mut().flush()?)),
            To::Csv(to) => to.write(&batch),
            To::Parquet(to) => to.write(&batch).map_err(Into::into),
            To::Stream(to) => to.write(&batch).and_then(|()| to.flush()),
            To::File(to) => to.write(&batch),
        };
        written.map_err(|error| self.failure.or(error))
    }

    /// # Errors
    /// The target fails.
    pub(crate) fn finish(self) -> Result<()> {
        let failure = self.failure;
        let target = match self.to {
            To::Table(to) => target(to.finish().map_err(|error| failure.or(error))?),
            To::Json(mut to) => {
                to.finish().map_err(|error| failure.or(error))?;
                target(to.into_inner())
            }
            To::Csv(to) => target(to.into_inner()),
            To::Parquet(to) => Some(to.into_inner().map_err(|error| failure.or(error))?),
            To::Stream(to) => target(to.into_inner().map_err(|error| failure.or(error))?),
            To::File(to) => target(to.into_inner().map_err(|error| failure.or(error))?),
        };
        target.ok_or_else(|| failure.or("it could not be written"))?.finish()
    }
}

/// The target, if it took all bytes. Otherwise it stores its error.
fn target(buffered: Buffered) -> Option<Target> {
    buffered.into_inner().ok()
}
