//! Queries fail when an executor is lost.
//!
//! Ballista 55 would rerun the tasks of the lost executor and count some rows twice: a join of 2000
//! by 2000 rows made 6 million pairs. Remove this file when the test `an_executor_that_is_killed_…`
//! passes without it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use ballista_core::JobId;
use ballista_core::error::Result;
use ballista_core::serde::protobuf::ExecutorHeartbeat;
use ballista_core::serde::scheduler::{ExecutorData, ExecutorMetadata};
use ballista_scheduler::cluster::{BoundTask, ClusterState, ClusterStateEventStream, ExecutorSlot};
use ballista_scheduler::config::TaskDistributionPolicy;
use ballista_scheduler::scheduler_server::SchedulerServer;
use ballista_scheduler::state::task_manager::JobInfoCache;
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};

type Scheduler = SchedulerServer<LogicalPlanNode, PhysicalPlanNode>;

/// A cluster state that cancels all running queries before it removes an executor.
pub(crate) struct LossAwareState {
    state: Arc<dyn ClusterState>,
    scheduler: OnceLock<Scheduler>,
}

impl LossAwareState {
    pub(crate) fn new(state: Arc<dyn ClusterState>) -> Arc<Self> {
        Arc::new(Self { state, scheduler: OnceLock::new() })
    }

    /// Sets the scheduler that runs the queries.
    pub(crate) fn of(&self, scheduler: Scheduler) {
        // Set once.
        let _ = self.scheduler.set(scheduler);
    }
}

#[async_trait::async_trait]
impl ClusterState for LossAwareState {
    async fn remove_executor(&self, executor: &str) -> Result<()> {
        if let Some(scheduler) = self.scheduler.get() {
            let jobs = scheduler.state.task_manager.get_running_job_cache();
            for job in jobs.keys() {
                // The scheduler handles events in order: the cancellation first, then the loss.
                scheduler.cancel_job(job.clone()).await?;
            }
        }
        self.state.remove_executor(executor).await
    }

    async fn init(&self) -> Result<()> {
        self.state.init().await
    }

    async fn bind_schedulable_tasks(
        &self,
        distribution: TaskDistributionPolicy,
        jobs: Arc<HashMap<JobId, JobInfoCache>>,
        executors: Option<HashSet<String>>,
    ) -> Result<Vec<BoundTask>> {
        self.state.bind_schedulable_tasks(distribution, jobs, executors).await
    }

    async fn unbind_tasks(&self, slots: Vec<ExecutorSlot>) -> Result<()> {
        self.state.unbind_tasks(slots).await
    }

    async fn register_executor(&self, about: ExecutorMetadata, data: ExecutorData) -> Result<()> {
        self.state.register_executor(about, data).await
    }

    async fn save_executor_metadata(&self, about: ExecutorMetadata) -> Result<()> {
        self.state.save_executor_metadata(about).await
    }

    async fn get_executor_metadata(&self, executor: &str) -> Result<ExecutorMetadata> {
        self.state.get_executor_metadata(executor).await
    }

    async fn registered_executor_metadata(&self) -> Vec<ExecutorMetadata> {
        self.state.registered_executor_metadata().await
    }

    async fn save_executor_heartbeat(&self, heartbeat: ExecutorHeartbeat) -> Result<()> {
        self.state.save_executor_heartbeat(heartbeat).await
    }

    fn executor_heartbeats(&self) -> HashMap<String, ExecutorHeartbeat> {
        self.state.executor_heartbeats()
    }

    fn get_executor_heartbeat(&self, executor: &str) -> Option<ExecutorHeartbeat> {
        self.state.get_executor_heartbeat(executor)
    }

    async fn cluster_state_events(&self) -> Result<ClusterStateEventStream> {
        self.state.cluster_state_events().await
    }
}
