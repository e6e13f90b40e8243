//! `wirelane-query scheduler`: a scheduler of Ballista, on one port.

use std::io::{self, Write as _};
use std::sync::Arc;

use ballista_core::config::TaskSchedulingPolicy;
use ballista_core::error::BallistaError;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::{SchedulerConfig, TaskDistributionPolicy};
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use tokio::net::TcpListener;
use wirelane::{Error, Result};

use super::arguments::SchedulerArgs;
use super::codec::{LogicalCodec, Physical};
use super::losses::LossAwareState;
use super::system::{runtime, signal, warn};
use super::{log, session};

/// Runs until a signal ends it.
pub(crate) fn run(args: &SchedulerArgs) -> Result<()> {
    log::start(args.verbose);
    runtime()?.block_on(serve(args))
}

async fn serve(args: &SchedulerArgs) -> Result<()> {
    let object = || format!("address {}", args.listen);
    let listener =
        TcpListener::bind(args.listen).await.map_err(|error| Error::io(object(), "bind", error))?;
    let address =
        listener.local_addr().map_err(|error| Error::io(object(), "getsockname", error))?;
    let failed =
        |error: BallistaError| Error::failed(format!("scheduler at {address}"), error.to_string());
    let silence = args.executor_timeout.as_secs();
    let config = SchedulerConfig {
        bind_host: address.ip().to_string(),
        bind_port: address.port(),
        external_host: address.ip().to_string(),
        // Executors poll for work. Others connect to them only to fetch results.
        scheduling_policy: TaskSchedulingPolicy::PullStaged,
        // Spreads a query over all executors. Otherwise the first to ask would get all tasks.
        task_distribution: TaskDistributionPolicy::RoundRobin,
        executor_timeout_seconds: silence,
        expire_dead_executor_interval_seconds: 1,
        // No retry after a loss: see `losses`.
        stage_max_failures: 1,
        no_executors_grace_period_seconds: silence,
        override_config_producer: Some(session::config()),
        override_logical_codec: Some(Arc::new(LogicalCodec::default())),
        override_physical_codec: Some(Arc::new(Physical::default())),
        override_session_builder: Some(session::builder()),
        ..SchedulerConfig::default()
    };
    let cluster = BallistaCluster::new_from_config(&config).await.map_err(failed)?;
    let losses = LossAwareState::new(cluster.cluster_state());
    let cluster = BallistaCluster::new(losses.clone(), cluster.job_state());
    let scheduler =
        create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, Arc::new(config))
            .await
            .map_err(failed)?;
    losses.of(scheduler.clone());
    warn("can run queries with the access rights of the executors", args.listen);
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "scheduler at df://{address}; ^C ends it");
    tokio::select! {
        outcome = start_grpc_service_with_listener(listener, scheduler) => outcome.map_err(failed),
        outcome = signal() => outcome,
    }
}
