//! Sessions of scheduler and executors, which must understand the client's queries.

use std::sync::Arc;

use ballista_core::extension::SessionConfigExt as _;
use ballista_core::utils::default_session_builder;
use ballista_core::{ConfigProducer, RuntimeProducer};
use ballista_scheduler::scheduler_server::SessionBuilder;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::SessionConfig;

use crate::stores::StoreRegistry;

/// Produces the settings of sessions.
pub(crate) fn config() -> ConfigProducer {
    Arc::new(SessionConfig::new_with_ballista)
}

/// Produces runtimes that open object stores with keys of this process's environment, and spill to
/// `spills`.
pub(crate) fn runtime(spills: Option<String>) -> RuntimeProducer {
    Arc::new(move |_| {
        let mut runtime =
            RuntimeEnvBuilder::new().with_object_store_registry(Arc::new(StoreRegistry::default()));
        if let Some(directory) = &spills {
            runtime = runtime.with_temp_file_path(directory.clone());
        }
        runtime.build_arc()
    })
}

/// Produces the scheduler's session for a client.
pub(crate) fn builder() -> SessionBuilder {
    let runtime = runtime(None);
    Arc::new(move |config| {
        let runtime = runtime(&config)?;
        let state = default_session_builder(config)?;
        Ok(SessionStateBuilder::new_from_existing(state).with_runtime_env(runtime).build())
    })
}
