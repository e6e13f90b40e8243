//! A session whose queries run on a cluster.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use ballista_core::config::BallistaConfig;
use ballista_core::extension::{SessionConfigExt as _, SessionStateExt as _};
use datafusion::error::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner as _};
use datafusion::prelude::{DataFrame, SessionContext};
use wirelane::{Error, Result};

use super::address::SchedulerAddress;
use super::codec::LogicalCodec;

/// Limit for connecting to a scheduler, for each read and for each write.
const LIMIT: Duration = Duration::from_secs(5);

/// Least number of tasks in a stage; a client with more CPUs makes more. Executors take tasks when
/// idle, so that this should exceed the CPUs of a small cluster.
const TASKS: usize = 16;

/// A cluster that can take queries.
pub(crate) struct Cluster<'a>(&'a SchedulerAddress);

impl<'a> Cluster<'a> {
    /// # Errors
    /// There is no scheduler, or it has no executors.
    pub(crate) fn find(scheduler: &'a SchedulerAddress) -> Result<Self> {
        if has_executors(scheduler)? {
            return Ok(Self(scheduler));
        }
        Err(failed(scheduler, "it has no executors".to_owned())
            .help(format!("start some: wirelane-query executor --scheduler {scheduler}")))
    }

    /// The same tables and settings, with queries run by the cluster.
    ///
    /// # Errors
    /// Ballista rejects the settings.
    pub(crate) fn over(&self, context: &SessionContext) -> Result<SessionContext> {
        let SchedulerAddress { host, port } = self.0;
        let mut state = context.state();
        let options = state.config_mut().options_mut();
        options.execution.target_partitions = TASKS.max(options.execution.target_partitions);
        // Otherwise the new state begins with an empty catalog.
        options.catalog.create_default_catalog_and_schema = false;
        let config = state.config().clone();
        *state.config_mut() =
            config.with_ballista_logical_extension_codec(Arc::new(LogicalCodec::default()));
        let state = state
            .upgrade_for_ballista(format!("http://{host}:{port}"))
            .map_err(|error| failed(self.0, error.to_string()))?;
        Ok(SessionContext::new_with_state(state))
    }
}

/// The local plan of a query that a cluster runs; `None` without cluster.
///
/// # Errors
/// The query cannot be planned.
pub(crate) async fn local(
    frame: &DataFrame,
) -> Result<Option<Arc<dyn ExecutionPlan>>, DataFusionError> {
    let (state, plan) = frame.clone().into_parts();
    let is_plain = state.config_options().extensions.get::<BallistaConfig>().is_none();
    if is_plain {
        return Ok(None);
    }
    let plan = state.optimize(&plan)?;
    DefaultPhysicalPlanner::default().create_physical_plan(&plan, &state).await.map(Some)
}

/// Fails unless a scheduler answers.
pub(crate) fn is_there(scheduler: &SchedulerAddress) -> Result<()> {
    has_executors(scheduler).map(|_| ())
}

/// Ballista's scheduler answers `GET /readyz` with 200, or with 503 if it has no executors.
fn has_executors(scheduler: &SchedulerAddress) -> Result<bool> {
    let answer = ask(scheduler).map_err(|error| {
        failed(scheduler, format!("nobody answers there ({error})"))
            .help("start one: wirelane-query scheduler --listen ADDRESS:PORT")
    })?;
    match answer.split(' ').nth(1) {
        Some("200") => Ok(true),
        Some("503") => Ok(false),
        _ => Err(failed(scheduler, "what answers there is no scheduler".to_owned())),
    }
}

fn ask(scheduler: &SchedulerAddress) -> io::Result<String> {
    let SchedulerAddress { host, port } = scheduler;
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in (name, *port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, LIMIT) {
            Ok(mut connection) => {
                connection.set_read_timeout(Some(LIMIT))?;
                connection.set_write_timeout(Some(LIMIT))?;
                let request = format!(
                    "GET /readyz HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n\r\n"
                );
                connection.write_all(request.as_bytes())?;
                let mut answer = Vec::new();
                // The first line is enough. The limit ends an endless answer.
                connection.take(1 << 12).read_to_end(&mut answer)?;
                return Ok(String::from_utf8_lossy(&answer).into_owned());
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn failed(scheduler: &SchedulerAddress, cause: String) -> Error {
    Error::failed(format!("scheduler {scheduler}"), cause)
}
