//! Finds the file that made a query fail: the engine's errors do not name it.
//!
//! It reads each file alone, as the plan did, until one fails.

use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use futures::TryStreamExt as _;
use wirelane::Error;

use super::check::{damaged, name};
use super::panics;

/// Whether a Parquet file caused the error.
pub(crate) fn is_of_file(error: &DataFusionError) -> bool {
    match error.find_root() {
        DataFusionError::ParquetError(_) => true,
        DataFusionError::ArrowError(error, _) => matches!(**error, ArrowError::ParquetError(_)),
        _ => false,
    }
}

/// Reads the files of the plan one by one, until one fails.
pub(crate) async fn find(plan: Arc<dyn ExecutionPlan>, task: Arc<TaskContext>) -> Option<Error> {
    let mut scans = Vec::new();
    gather(&plan, &mut scans);
    for (object, scan) in scans {
        let read = async {
            let mut rows = scan.execute(0, Arc::clone(&task))?;
            while rows.try_next().await?.is_some() {}
            Ok(())
        };
        match panics::caught(read).await {
            Err(_) => return Some(damaged(object, "its pages are impossible")),
            Ok(Err(error)) if is_of_file(&error) => {
                return Some(damaged(object, &error.find_root().strip_backtrace()));
            }
            Ok(_) => {}
        }
    }
    None
}

/// The scans of single files, with their names.
fn gather(plan: &Arc<dyn ExecutionPlan>, scans: &mut Vec<(String, Arc<dyn ExecutionPlan>)>) {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>()
        && let Some((config, _)) = scan.downcast_to_file_source::<ParquetSource>()
    {
        for file in config.file_groups.iter().flat_map(FileGroup::files) {
            let one = FileScanConfigBuilder::from(config.clone())
                .with_file_groups(vec![FileGroup::new(vec![file.clone()])])
                .with_limit(None)
                .build();
            let object = name(&config.object_store_url, &file.object_meta);
            scans.push((object, DataSourceExec::from_data_source(one)));
        }
    }
    plan.children().into_iter().for_each(|child| gather(child, scans));
}
