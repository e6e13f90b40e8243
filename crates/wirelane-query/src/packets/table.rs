//! The table, for the engine.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use wirelane::Result as Outcome;
use wirelane_arrow::Packets;

use super::asked::Asked;
use super::scan::{Places, Scan};
use super::{bpf, file, sieve, store};

/// Its name in SQL.
const NAME: &str = "packets";

/// Makes the table of all packets of these files and directories; without any there is none.
///
/// # Errors
/// One is neither a capture file nor a store.
pub(crate) fn register(context: &SessionContext, paths: &[PathBuf]) -> Outcome<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let (stores, files): (Vec<_>, Vec<_>) = paths.iter().cloned().partition(|path| path.is_dir());
    for path in &stores {
        store::open(path)?;
    }
    files.iter().try_for_each(|path| file::check(path))?;
    context.register_udf(bpf::function());
    let table =
        Table { schema: Packets::schema_with_data(), places: Arc::new(Places { files, stores }) };
    let registered = context.register_table(NAME, Arc::new(table));
    registered.map(drop).map_err(|error| wirelane::Error::failed(NAME, error.to_string()))
}

#[derive(Debug)]
struct Table {
    schema: SchemaRef,
    places: Arc<Places>,
}

#[async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        conditions: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>, DataFusionError> {
        let support = |condition: &&Expr| match Asked::keeps(condition) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(conditions.iter().map(support).collect())
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        conditions: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let asked = Asked::of(conditions);
        for filter in &asked.filters {
            sieve::check(filter).map_err(|error| DataFusionError::External(Box::new(error)))?;
        }
        let name = |at: &usize| self.schema.field(*at).name().clone();
        let columns = match projection {
            Some(projection) => projection.iter().map(name).collect(),
            None => self.schema.fields().iter().map(|field| field.name().clone()).collect(),
        };
        Ok(Arc::new(Scan::new(Arc::clone(&self.places), asked, columns, limit)?))
    }
}
