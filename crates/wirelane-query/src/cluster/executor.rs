//! `wirelane-query executor`: an executor of Ballista, which asks its scheduler for work.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ballista_core::config::TaskSchedulingPolicy;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::health::ExecutorHealth;
use wirelane::{Error, Result};

use super::address::SchedulerAddress;
use super::arguments::ExecutorArgs;
use super::client::is_there;
use super::codec::{LogicalCodec, Physical};
use super::system::{runtime, signal, warn};
use super::work::WorkDirectory;
use super::{log, session};

/// Interval of checks whether the scheduler answers.
const LOOK: Duration = Duration::from_millis(100);

/// Runs until a signal ends it.
pub(crate) fn run(args: &ExecutorArgs) -> Result<()> {
    log::start(args.verbose);
    is_there(&args.scheduler)?;
    let address = free(args.listen)?;
    let work = WorkDirectory::new(args.work.as_deref())?;
    let health = ExecutorHealth::new();
    let config = Arc::new(ExecutorProcessConfig {
        bind_host: bracketed(address),
        port: address.port(),
        external_host: args.advertise.clone().or_else(|| reachable(address)),
        scheduler_host: args.scheduler.host.clone(),
        scheduler_port: args.scheduler.port,
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        vcores: args.tasks.map_or_else(cpus, usize::from),
        work_dir: Some(work.path()),
        override_config_producer: Some(session::config()),
        override_logical_codec: Some(Arc::new(LogicalCodec::default())),
        override_physical_codec: Some(Arc::new(Physical::default())),
        override_runtime_producer: Some(session::runtime(Some(work.path()))),
        health: health.clone(),
        ..ExecutorProcessConfig::default()
    });
    warn("can read the results of queries", address);
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        // Ballista returns the same after a signal and after a failure.
        let asked = tokio::spawn(signal());
        let watch = tokio::spawn(watch(address, args.scheduler.clone(), health));
        let outcome = start_executor_process(config).await;
        watch.abort();
        match outcome {
            Ok(()) if asked.is_finished() => Ok(()),
            Ok(()) => {
                Err("it ended by itself: its port was taken, or a part of it failed".to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    });
    // No client waits for tasks that still run.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome.map_err(|cause| Error::failed(format!("executor at {address}"), cause))
}

/// The address, with a free port instead of port 0.
fn free(wanted: SocketAddr) -> Result<SocketAddr> {
    let listener = TcpListener::bind(wanted)
        .map_err(|error| Error::io(format!("address {wanted}"), "bind", error))?;
    listener
        .local_addr()
        .map_err(|error| Error::io(format!("address {wanted}"), "getsockname", error))
}

/// The host as part of HOST:PORT.
fn bracketed(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(it) => it.ip().to_string(),
        SocketAddr::V6(it) => format!("[{}]", it.ip()),
    }
}

/// The host that others connect to. If it is `None`, the scheduler takes the connection's address.
fn reachable(address: SocketAddr) -> Option<String> {
    (!address.ip().is_unspecified()).then(|| bracketed(address))
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Prints when the scheduler begins to answer, and when it stops.
async fn watch(address: SocketAddr, scheduler: SchedulerAddress, health: ExecutorHealth) {
    let mut was_ready = false;
    loop {
        let is_ready = health.is_ready();
        if is_ready != was_ready {
            was_ready = is_ready;
            let text = if is_ready {
                format!("executor at {address} works for {scheduler}; ^C ends it")
            } else {
                format!("no answer from {scheduler}; trying again")
            };
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "{text}");
        }
        tokio::time::sleep(LOOK).await;
    }
}
