//! The engine with the tables of the sources.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::catalog::TableProvider;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ident;
use datafusion::prelude::SessionContext;
use wirelane::Result;

use super::kind::TableKind;
use super::sources::TableSources;
use super::{failure, parquet, session};
use crate::cluster::{Cluster, SchedulerAddress};
use crate::packets;

/// Makes the engine and its tables. With the address of a scheduler, its cluster runs the queries.
///
/// # Errors
/// A source cannot be read, or there is no cluster.
pub(crate) async fn open(
    sources: &TableSources,
    cluster: Option<&SchedulerAddress>,
    memory: Option<usize>,
    spill: &Path,
) -> Result<SessionContext> {
    // Fails before anything is read.
    let cluster = cluster.map(Cluster::find).transpose()?;
    let context = session::session(memory, spill)?;
    let parquet = parquet::tables(&context, &sources.parquet).await?;
    let captures = packets::table(&sources.packets)?;
    let captures = captures.map(|table| (TableKind::Packets, table));
    register(&context, parquet.into_iter().chain(captures)).map_err(failure::of)?;
    let context = match cluster {
        Some(cluster) => cluster.over(&context)?,
        None => context,
    };
    context.register_udf(packets::bpf());
    Ok(context)
}

/// Registers tables. Two tables of a kind become their union, with the columns of the kind.
fn register(
    context: &SessionContext,
    tables: impl Iterator<Item = (TableKind, Arc<dyn TableProvider>)>,
) -> Result<(), DataFusionError> {
    for (kind, table) in tables {
        let table = match context.deregister_table(kind.name())? {
            None => table,
            Some(other) => {
                let schema = kind.schema();
                let columns = || schema.fields().iter().map(|it| ident(it.name()));
                let of = |table| context.read_table(table)?.select(columns());
                of(other)?.union(of(table)?)?.into_view()
            }
        };
        context.register_table(kind.name(), table)?;
    }
    Ok(())
}

/// The names of the tables, one per line.
pub(crate) fn names(context: &SessionContext) -> String {
    let schema = context.catalog("datafusion").and_then(|catalog| catalog.schema("public"));
    let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
    names.sort();
    names.into_iter().map(|name| name + "\n").collect()
}

/// The columns of a table and their types, one per line.
///
/// # Errors
/// The table does not exist.
pub(crate) async fn columns(context: &SessionContext, table: &str) -> Result<String> {
    let provider = context.table_provider(table).await.map_err(failure::of)?;
    let schema = provider.schema();
    let width = schema.fields().iter().map(|field| field.name().len()).max().unwrap_or(0);
    let line = |name: &str, kind: &DataType| format!("{name:<width$}  {kind}\n");
    Ok(schema.fields().iter().map(|field| line(field.name(), field.data_type())).collect())
}
