//! The engine with the tables that sources fill.

use std::path::Path;

use arrow_schema::DataType;
use datafusion::prelude::SessionContext;
use wirelane::Result;

use super::sources::Sources;
use super::{failure, flows, session};
use crate::cluster::{Address, Cluster};
use crate::packets;

/// Makes the engine and its tables; with the address of a scheduler, its cluster is the engine.
///
/// # Errors
/// A source cannot be read, or there is no cluster.
pub(crate) async fn open(
    sources: &Sources,
    cluster: Option<&Address>,
    memory: Option<usize>,
    spill: &Path,
) -> Result<SessionContext> {
    // Before anything is read: it may not be there.
    let cluster = cluster.map(Cluster::find).transpose()?;
    let context = session::session(memory, spill)?;
    flows::register(&context, &sources.flows).await?;
    packets::register(&context, &sources.packets)?;
    let context = match cluster {
        Some(cluster) => cluster.over(&context)?,
        None => context,
    };
    context.register_udf(packets::bpf());
    Ok(context)
}

/// The names of the tables, a line each.
pub(crate) fn names(context: &SessionContext) -> String {
    let schema = context.catalog("datafusion").and_then(|catalog| catalog.schema("public"));
    let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
    names.sort();
    names.into_iter().map(|name| name + "\n").collect()
}

/// The columns of a table and their types, a line each.
///
/// # Errors
/// There is no such table.
pub(crate) async fn columns(context: &SessionContext, table: &str) -> Result<String> {
    let provider = context.table_provider(table).await.map_err(failure::of)?;
    let schema = provider.schema();
    let width = schema.fields().iter().map(|field| field.name().len()).max().unwrap_or(0);
    let line = |name: &str, kind: &DataType| format!("{name:<width$}  {kind}\n");
    Ok(schema.fields().iter().map(|field| line(field.name(), field.data_type())).collect())
}
