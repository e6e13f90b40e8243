//! What is in the files that were written.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// The files below a directory, whatever their names.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The column of that name.
pub(crate) fn packets(batch: &RecordBatch) -> Vec<u64> {
    batch.column_by_name("packets").unwrap().as_primitive::<UInt64Type>().values().to_vec()
}

/// That column of a Parquet file.
pub(crate) fn packets_of(path: &Path) -> Vec<u64> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    builder.build().unwrap().flat_map(|batch| packets(&batch.unwrap())).collect()
}
