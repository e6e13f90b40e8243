//! The table `packets` as a table provider of DataFusion.

use std::path::{self, PathBuf};
use std::sync::Arc;

use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use wirelane::{Error, Result as Outcome};
use wirelane_flow::arrow::Packets;

use super::asked::PacketSelection;
use super::places::Places;
use super::scan::PacketScan;
use super::{file, sieve, store};

/// The table of all packets of these files and directories; `None` without paths.
///
/// # Errors
/// One is neither a capture file nor a store.
pub(crate) fn table(paths: &[PathBuf]) -> Outcome<Option<Arc<dyn TableProvider>>> {
    if paths.is_empty() {
        return Ok(None);
    }
    // Absolute paths: executors on other machines open them.
    let whole = |path: &PathBuf| {
        path::absolute(path).map_err(|error| Error::io(path.display().to_string(), "getcwd", error))
    };
    let paths: Vec<_> = paths.iter().map(whole).collect::<Outcome<_>>()?;
    let (stores, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
    for path in &stores {
        store::open(path)?;
    }
    files.iter().try_for_each(|path| file::check(path))?;
    Ok(Some(Arc::new(PacketTable::new(Places { files, stores }))))
}

#[derive(Debug)]
pub(crate) struct PacketTable {
    schema: SchemaRef,
    places: Places,
}

impl PacketTable {
    fn new(places: Places) -> Self {
        Self { schema: Packets::schema_with_data(), places }
    }
}

#[cfg(feature = "cluster")]
impl PacketTable {
    /// Encodes the table for another machine.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) -> Result<(), DataFusionError> {
        serde_json::to_writer(to, &self.places)
            .map_err(|error| DataFusionError::External(error.into()))
    }

    /// Decodes a table from another machine.
    pub(crate) fn decode(text: &[u8]) -> Result<Self, DataFusionError> {
        let places = serde_json::from_slice(text);
        places.map(Self::new).map_err(|error| DataFusionError::External(error.into()))
    }
}

#[async_trait]
impl TableProvider for PacketTable {
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
        let support = |condition: &&Expr| match PacketSelection::keeps(condition) {
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
        let asked = PacketSelection::of(conditions);
        for filter in &asked.filters {
            sieve::check(filter).map_err(|error| DataFusionError::External(Box::new(error)))?;
        }
        let name = |at: &usize| self.schema.field(*at).name().clone();
        let columns = match projection {
            Some(projection) => projection.iter().map(name).collect(),
            None => self.schema.fields().iter().map(|field| field.name().clone()).collect(),
        };
        Ok(Arc::new(PacketScan::new(&self.places, asked, columns, limit)?))
    }
}
