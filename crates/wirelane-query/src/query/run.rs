//! From SQL to rows.

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{DataFrame, SessionContext};
use wirelane::Result;

use super::{check, depth, failure};
use crate::cluster;

/// A query that is under way.
pub(crate) struct Running {
    /// Its operators count what they read.
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) rows: SendableRecordBatchStream,
}

/// Starts a statement. It only reads: it writes only its answer, and opens only the sources.
///
/// # Errors
/// The statement is wrong or would change something, or a file is not valid.
pub(crate) async fn start(context: &SessionContext, sql: &str) -> Result<Running> {
    depth::check(sql)?;
    let reads =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let frame = context.sql_with_options(sql, reads).await.map_err(failure::of)?;
    start_frame(context, frame).await
}

/// Starts a query.
///
/// # Errors
/// The files are not what they have to be.
pub(crate) async fn start_frame(context: &SessionContext, frame: DataFrame) -> Result<Running> {
    let task = Arc::new(frame.task_ctx());
    let local = cluster::local(&frame).await.map_err(failure::of)?;
    let plan = frame.create_physical_plan().await.map_err(failure::of)?;
    check::check(local.as_ref().unwrap_or(&plan), &context.runtime_env()).await?;
    let rows = execute_stream(Arc::clone(&plan), task).map_err(failure::of)?;
    Ok(Running { plan, rows })
}
