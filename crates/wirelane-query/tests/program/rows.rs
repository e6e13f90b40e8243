//! Reads the files that a program wrote.

use std::fs::File;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// The column `packets` of a batch.
pub(crate) fn packets(batch: &RecordBatch) -> Vec<u64> {
    batch.column_by_name("packets").unwrap().as_primitive::<UInt64Type>().values().to_vec()
}

/// The column `packets` of a Parquet file.
pub(crate) fn packets_of(path: &Path) -> Vec<u64> {
    batches_of(path).iter().flat_map(packets).collect()
}

/// All rows of a Parquet file.
pub(crate) fn batches_of(path: &Path) -> Vec<RecordBatch> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    builder.build().unwrap().map(Result::unwrap).collect()
}
