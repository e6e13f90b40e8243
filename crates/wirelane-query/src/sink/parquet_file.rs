//! A file of Parquet in memory: row groups sorted by address, with statistics, dictionaries and Bloom filters, so that
//! queries for an address or a time read little of it.

use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use wirelane::{Error, Result};
use wirelane_flow::Flow;

use wirelane_arrow::Flows;

/// Flows of a row group: what is sorted at once, and what a query reads at least a column of.
const GROUP: usize = 1 << 17;

/// A file that is being made.
pub(crate) struct ParquetFile {
    writer: ArrowWriter<Vec<u8>>,
    batches: Flows,
    /// The row group that is not full yet.
    group: Vec<Flow>,
    flows: u64,
}

impl ParquetFile {
    pub(crate) fn new() -> Result<Self> {
        let batches = Flows::new();
        let writer = ArrowWriter::try_new(Vec::new(), batches.schema(), Some(properties()?))
            .map_err(failed)?;
        Ok(Self { writer, batches, group: Vec::new(), flows: 0 })
    }

    pub(crate) fn add(&mut self, flow: Flow) -> Result<()> {
        self.flows += 1;
        self.group.push(flow);
        if self.group.len() == GROUP { self.end_group() } else { Ok(()) }
    }

    /// About how large the file would be.
    pub(crate) fn size(&self) -> usize {
        /// Of a flow, compressed.
        const USUAL: usize = 50;
        self.writer.bytes_written() + self.group.len() * USUAL
    }

    pub(crate) fn flows(&self) -> u64 {
        self.flows
    }

    /// All of it.
    pub(crate) fn finish(mut self) -> Result<Bytes> {
        self.end_group()?;
        self.writer.into_inner().map(Bytes::from).map_err(failed)
    }

    fn end_group(&mut self) -> Result<()> {
        // Slices of it become columns: all columns of a whole group at once would take twice the memory.
        const SLICE: usize = 1 << 13;
        let key = |flow: &Flow| {
            let key = &flow.key;
            (key.source, key.destination, key.protocol, key.destination_port, flow.start())
        };
        self.group.sort_unstable_by_key(key);
        for flows in self.group.chunks(SLICE) {
            let batch = self.batches.of(flows).map_err(|error| failed(error.into()))?;
            self.writer.write(&batch).map_err(failed)?;
        }
        self.group.clear();
        self.writer.flush().map_err(failed)
    }
}

fn properties() -> Result<WriterProperties> {
    // Level 3 is what zstd itself takes.
    let level = ZstdLevel::try_new(3).map_err(failed)?;
    let filtered = ["source", "destination", "community_id"];
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(format!("wirelane {}", env!("CARGO_PKG_VERSION")))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_max_row_group_row_count(Some(GROUP))
        .set_key_value_metadata(Some(vec![KeyValue::new(
            "wirelane.schema".to_owned(),
            "wirelane.flows/1".to_owned(),
        )]));
    for name in filtered {
        properties = properties.set_column_bloom_filter_enabled(ColumnPath::from(name), true);
    }
    // No two are alike.
    let unique = ColumnPath::from("community_id");
    Ok(properties.set_column_dictionary_enabled(unique, false).build())
}

fn failed(error: ParquetError) -> Error {
    Error::failed("a Parquet file", error.to_string())
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::UInt64Type;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use wirelane_flow::Half;

    use super::*;

    #[test]
    fn a_file_holds_all_flows_sorted_by_address() {
        let mut file = ParquetFile::new().unwrap();
        for number in (0..1000_u64).rev() {
            let mut flow = Flow::default();
            flow.key.source = [10, 0, (number >> 8) as u8, number as u8].into();
            flow.forward =
                Half { packets: number, octets: 7, start: number + 1, ..Half::default() };
            file.add(flow).unwrap();
        }
        assert_eq!(file.flows(), 1000);
        let bytes = file.finish().unwrap();
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
