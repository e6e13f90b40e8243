//! Replaces cluster support in a build without the feature `cluster`: every use fails.

use std::convert::Infallible;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use wirelane::{Error, Result};

use super::address::SchedulerAddress;
use super::arguments::{ExecutorArgs, SchedulerArgs};

/// A cluster, which cannot exist.
pub(crate) struct Cluster(Infallible);

impl Cluster {
    /// # Errors
    /// Always.
    pub(crate) fn find(_: &SchedulerAddress) -> Result<Self> {
        Err(absent("query --cluster"))
    }

    pub(crate) fn over(&self, _: &SessionContext) -> Result<SessionContext> {
        match self.0 {}
    }
}

/// No cluster runs the query.
pub(crate) async fn local(
    _: &DataFrame,
) -> Result<Option<Arc<dyn ExecutionPlan>>, DataFusionError> {
    Ok(None)
}

pub(crate) fn run_executor(_: &ExecutorArgs) -> Result<()> {
    Err(absent("executor"))
}

pub(crate) fn run_scheduler(_: &SchedulerArgs) -> Result<()> {
    Err(absent("scheduler"))
}

fn absent(what: &str) -> Error {
    Error::usage(what, "this wirelane-query was built without clusters")
        .help("install it with them: cargo install --path crates/wirelane-query --features cluster")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_says_how_to_get_clusters() {
        let scheduler = "df://127.0.0.1:1".parse().unwrap();
        let error = Cluster::find(&scheduler).err().unwrap().to_string();
        assert!(error.contains("without clusters"), "{error}");
        assert!(error.contains("--features cluster"), "{error}");
    }
}
