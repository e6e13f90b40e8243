//! From SQL to rows.

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{DataFrame, SessionContext};
use wirelane::Result;

use super::{check, failure};

/// A query that is under way.
pub(crate) struct Running {
    /// Its operators count what they read.
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) rows: SendableRecordBatchStream,
}

/// Starts what a text asks.
///
/// # Errors
/// It is wrong, or the files are.
pub(crate) async fn start(context: &SessionContext, sql: &str) -> Result<Running> {
    start_frame(context, context.sql(sql).await.map_err(failure::of)?).await
}

/// Starts a query.
///
/// # Errors
/// The files are not what they have to be.
pub(crate) async fn start_frame(context: &SessionContext, frame: DataFrame) -> Result<Running> {
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.map_err(failure::of)?;
    check::check(&plan, &context.runtime_env()).await?;
    let rows = execute_stream(Arc::clone(&plan), task).map_err(failure::of)?;
    Ok(Running { plan, rows })
}
