//! A file of Parquet in memory: row groups with statistics, dictionaries and Bloom filters, so that
//! queries for an address or a time read little of it. Threads encode row groups; the file appends
//! them in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions,
    compute_leaves,
};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use wirelane::{Error, Result};

use super::encoders::Encoders;
use super::rows::{PendingRows, RowStorage};

/// An unfinished file.
pub(crate) struct ParquetFile<R: PendingRows> {
    writer: SerializedFileWriter<Vec<u8>>,
    columns: Arc<ArrowRowGroupWriterFactory>,
    /// The row group that is not full.
    group: R,
    /// Row groups that threads encode, in order, with their numbers of rows.
    encoding: VecDeque<(usize, Receiver<Encoded>)>,
    /// Row groups begun.
    groups: usize,
    /// Rows added, and rows encoded.
    rows: u64,
    encoded: u64,
}

/// The columns of a row group.
type Encoded = Result<Vec<ArrowColumnChunk>, ParquetError>;

impl<R: PendingRows> ParquetFile<R> {
    /// A file for rows with the columns of `rows`.
    pub(crate) fn new(rows: &R) -> Result<Self> {
        let options = ArrowWriterOptions::new()
            .with_properties(properties(&R::KIND).map_err(failed)?)
            .with_skip_arrow_metadata(!R::KIND.tells_types);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), rows.schema(), options);
        let (writer, columns) =
            writer.and_then(ArrowWriter::into_serialized_writer).map_err(failed)?;
        Ok(Self {
            writer,
            columns: Arc::new(columns),
            group: rows.fresh(),
            encoding: VecDeque::new(),
            groups: 0,
            rows: 0,
            encoded: 0,
        })
    }

    pub(crate) fn add(&mut self, part: R::Part, encoders: &Encoders) -> Result<()> {
        let before = self.group.len();
        self.group.add(part);
        self.rows += (self.group.len() - before) as u64;
        if !self.group.is_full() {
            return Ok(());
        }
        self.end_group(encoders);
        self.take(false)
    }

    /// Estimated size of the file.
    pub(crate) fn size(&self) -> usize {
        let rest = usize::try_from(self.rows - self.encoded).unwrap_or(usize::MAX);
        self.writer.bytes_written() + rest.saturating_mul(R::KIND.usual)
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Encodes the remaining rows and returns the file.
    pub(crate) fn finish(mut self, encoders: &Encoders) -> Result<Bytes> {
        if self.group.len() > 0 {
            self.end_group(encoders);
        }
        self.take(true)?;
        self.writer.into_inner().map(Bytes::from).map_err(failed)
    }

    /// Starts to encode the row group.
    fn end_group(&mut self, encoders: &Encoders) {
        let fresh = self.group.fresh();
        let group = std::mem::replace(&mut self.group, fresh);
        let (number, columns) = (self.groups, Arc::clone(&self.columns));
        self.groups += 1;
        let rows = group.len();
        self.encoding.push_back((rows, encoders.begin(move || encode(&columns, number, group))));
    }

    /// Appends encoded row groups; if it `waits`, all of them.
    fn take(&mut self, waits: bool) -> Result<()> {
        while let Some((rows, next)) = self.encoding.front() {
            let chunks = match next.try_recv() {
                Ok(chunks) => chunks,
                Err(TryRecvError::Empty) if !waits => return Ok(()),
                Err(_) => next.recv().unwrap_or_else(|_| {
                    Err(ParquetError::General("encoding panicked: a defect".to_owned()))
                }),
            };
            self.encoded += *rows as u64;
            self.encoding.pop_front();
            self.append(chunks).map_err(failed)?;
        }
        Ok(())
    }

    fn append(&mut self, chunks: Encoded) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for chunk in chunks? {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close().map(drop)
    }
}

/// Encodes a row group. No column is nested.
fn encode<R: PendingRows>(
    columns: &ArrowRowGroupWriterFactory,
    number: usize,
    mut group: R,
) -> Encoded {
    group.sort();
    let schema = group.schema();
    let mut writers = columns.create_column_writers(number)?;
    for batch in group.batches() {
        let batch = batch?;
        let pairs = schema.fields().iter().zip(batch.columns());
        for ((field, array), writer) in pairs.zip(&mut writers) {
            for leaf in compute_leaves(field, array)? {
                writer.write(&leaf)?;
            }
        }
    }
    writers.into_iter().map(ArrowColumnWriter::close).collect()
}

fn properties(kind: &RowStorage) -> Result<WriterProperties, ParquetError> {
    let level = ZstdLevel::try_new(kind.level)?;
    let schema = KeyValue::new("wirelane.schema".to_owned(), kind.schema.to_owned());
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(format!("wirelane {}", env!("CARGO_PKG_VERSION")))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_key_value_metadata(Some(vec![schema]));
    for name in kind.filtered {
        properties = properties.set_column_bloom_filter_enabled(ColumnPath::from(*name), true);
    }
    for name in kind.plain {
        properties = properties.set_column_dictionary_enabled(ColumnPath::from(*name), false);
    }
    for name in kind.growing {
        properties = properties
            .set_column_dictionary_enabled(ColumnPath::from(*name), false)
            .set_column_encoding(ColumnPath::from(*name), Encoding::DELTA_BINARY_PACKED);
    }
    Ok(properties.build())
}

fn failed(error: ParquetError) -> Error {
    Error::failed("a Parquet file", error.to_string())
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::UInt64Type;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use wirelane_flow::{Flow, Half};

    use super::*;
    use crate::sink::rows::FlowRows;

    #[test]
    fn a_file_holds_all_flows_sorted_by_address() {
        let encoders = Encoders::start().unwrap();
        let mut file = ParquetFile::new(&FlowRows::default()).unwrap();
        for number in (0..1000_u64).rev() {
            let mut flow = Flow::default();
            flow.key.source = [10, 0, (number >> 8) as u8, number as u8].into();
            flow.forward =
                Half { packets: number, octets: 7, start: number + 1, ..Half::default() };
            file.add(flow, &encoders).unwrap();
        }
        assert_eq!(file.rows(), 1000);
        let bytes = file.finish(&encoders).unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
        let group = builder.metadata().row_group(0);
        assert_eq!(group.num_rows(), 1000);
        assert!(
            group
                .columns()
                .iter()
                .all(|it| it.compression() == Compression::ZSTD(ZstdLevel::default()))
        );
        let packets: Vec<u64> = builder
            .build()
            .unwrap()
            .flat_map(|batch| {
                let batch = batch.unwrap();
                let column = batch.column_by_name("packets").unwrap();
                column.as_primitive::<UInt64Type>().values().to_vec()
            })
            .collect();
        assert_eq!(packets, (0..1000).collect::<Vec<_>>());
    }
}
