//! The paths that a scan reads, as rows of its input.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use datafusion::common::exec_err;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use futures::TryStreamExt as _;
use futures::executor::block_on;
use serde::{Deserialize, Serialize};

/// Capture files, and directories of `wirelane record`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Places {
    pub(super) files: Vec<PathBuf>,
    pub(super) stores: Vec<PathBuf>,
}

impl Places {
    /// The paths as rows: a partition for each capture file, and one for all stores.
    pub(super) fn plan(&self) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let files = self.files.iter().map(std::slice::from_ref);
        let stores = Some(&self.stores[..]).filter(|stores| !stores.is_empty());
        let partitions = files.chain(stores).map(|paths| Ok(vec![batch(paths)?]));
        let partitions: Vec<_> = partitions.collect::<Result<_, DataFusionError>>()?;
        let schema = batch(&[])?.schema();
        let source = MemorySourceConfig::try_new(&partitions, schema, None)?;
        Ok(DataSourceExec::from_data_source(source))
    }
}

/// The paths of a partition.
pub(super) fn of(rows: SendableRecordBatchStream) -> Result<Vec<PathBuf>, DataFusionError> {
    let batches: Vec<RecordBatch> = block_on(rows.try_collect())?;
    let mut paths = Vec::new();
    for batch in &batches {
        let names = batch.column(0).as_string::<i32>();
        paths.extend(names.iter().flatten().map(PathBuf::from));
    }
    Ok(paths)
}

fn batch(paths: &[PathBuf]) -> Result<RecordBatch, DataFusionError> {
    let mut names = Vec::new();
    for path in paths {
        let Some(name) = path.to_str() else {
            return exec_err!("{}: its name is no text", path.display());
        };
        names.push(name);
    }
    let names: ArrayRef = Arc::new(StringArray::from(names));
    Ok(RecordBatch::try_from_iter([("path", names)])?)
}
