//! Plans SQL and runs it.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::StreamExt as _;
use tokio::task::JoinHandle;
use wirelane::{Error, Result};

use super::{check, culprit, depth, failure, panics};
use crate::cluster;

/// A running query.
pub(crate) struct RunningQuery {
    /// The plan. Its operators count the bytes and files that they read.
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    rows: SendableRecordBatchStream,
    task: Arc<TaskContext>,
    /// The search for the file that made it fail, and the error if the search finds none.
    search: Option<(JoinHandle<Option<Error>>, Error)>,
}

impl RunningQuery {
    pub(crate) fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// The next rows. After cancellation, call it again.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            if let Some((search, _)) = &mut self.search {
                let found = search.await.ok().flatten();
                let (_, error) = self.search.take()?;
                return Some(Err(found.unwrap_or(error)));
            }
            let error = match panics::caught(self.rows.next()).await {
                Ok(Some(Err(error))) if culprit::is_of_file(&error) => failure::of(error),
                Ok(next) => return next.map(|batch| batch.map_err(failure::of)),
                Err(error) => error,
            };
            let (plan, task) = (Arc::clone(&self.plan), Arc::clone(&self.task));
            self.search = Some((tokio::spawn(culprit::find(plan, task)), error));
        }
    }
}

/// Starts a statement. It only reads: it writes only its answer, and opens only the sources.
///
/// # Errors
/// The statement is wrong or would change something, or a file is not valid.
pub(crate) async fn start(context: &SessionContext, sql: &str) -> Result<RunningQuery> {
    depth::check(sql)?;
    let reads =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let frame = context.sql_with_options(sql, reads).await.map_err(failure::of_question)?;
    start_frame(context, frame).await
}

/// Starts a query.
///
/// # Errors
/// The query cannot be planned, or a file is not valid.
pub(crate) async fn start_frame(
    context: &SessionContext,
    frame: DataFrame,
) -> Result<RunningQuery> {
    let task = Arc::new(frame.task_ctx());
    let local = cluster::local(&frame).await.map_err(failure::of)?;
    let plan = frame.create_physical_plan().await.map_err(failure::of_question)?;
    check::check(local.as_ref().unwrap_or(&plan), &context.runtime_env()).await?;
    let rows = execute_stream(Arc::clone(&plan), Arc::clone(&task)).map_err(failure::of)?;
    Ok(RunningQuery { plan, rows, task, search: None })
}
