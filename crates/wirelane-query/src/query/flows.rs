//! The table `flows`: Parquet files, wherever they lie, with the columns that `wirelane flows`
//! writes.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::datasource::TableProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, ident, lit};
use datafusion::prelude::{DataFrame, SessionContext};
use wirelane::Result;
use wirelane_arrow::Flows;

use super::failure;
use super::listing::{self, PARTITIONS, Part};

/// Its name in SQL.
pub(crate) const NAME: &str = "flows";

/// Makes the table of all files below these URLs; without any there is none.
pub(crate) async fn register(context: &SessionContext, urls: &[ListingTableUrl]) -> Result<()> {
    if urls.is_empty() {
        return Ok(());
    }
    let mut parts = Vec::new();
    for url in urls {
        let store = context.runtime_env().object_store(url).map_err(failure::of)?;
        parts.extend(listing::parts(store.as_ref(), url).await?);
    }
    let table = table(context, parts).map_err(failure::of)?;
    context.register_table(NAME, table).map_err(failure::of)?;
    Ok(())
}

/// The type of each column that directories tell. An hour is text: the engine looks for directories
/// by its words.
pub(crate) fn partition_type(name: &str) -> DataType {
    if name == PARTITIONS[0] { DataType::Date32 } else { DataType::Utf8 }
}

/// One table of the engine, where the same is known of all files; otherwise several, one below the
/// other.
fn table(
    context: &SessionContext,
    parts: Vec<Part>,
) -> Result<Arc<dyn TableProvider>, DataFusionError> {
    let groups = groups(parts);
    if let [group] = &groups[..]
        && group[0].below == 0
    {
        return listing_table(group);
    }
    let mut all: Option<DataFrame> = None;
    for group in &groups {
        let frame = context.read_table(listing_table(group)?)?.select(columns(&group[0])?)?;
        all = Some(match all {
            Some(all) => all.union(frame)?,
            None => frame,
        });
    }
    let all = all.ok_or_else(|| DataFusionError::Plan("there are no files".into()))?;
    Ok(all.into_view())
}

/// Parts that one table of the engine can hold: of one store, with the same known of them.
fn groups(parts: Vec<Part>) -> Vec<Vec<Part>> {
    let key = |part: &Part| (part.url.object_store(), part.known.clone(), part.below, part.suffix);
    let mut groups: Vec<Vec<Part>> = Vec::new();
    for part in parts {
        match groups.iter_mut().find(|group| key(&group[0]) == key(&part)) {
            Some(group) => group.push(part),
            None => groups.push(vec![part]),
        }
    }
    groups
}

fn listing_table(group: &[Part]) -> Result<Arc<dyn TableProvider>, DataFusionError> {
    let columns = PARTITIONS[group[0].below..].iter();
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(group[0].suffix)
        .with_table_partition_cols(
            columns.map(|name| ((*name).to_owned(), partition_type(name))).collect(),
        );
    let urls = group.iter().map(|part| part.url.clone()).collect();
    let config = ListingTableConfig::new_with_multi_paths(urls)
        .with_listing_options(options)
        .with_schema(Flows::new().schema());
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// The columns of flows, then those that directories tell: of each row, of all, or nobody knows.
fn columns(part: &Part) -> Result<Vec<Expr>, DataFusionError> {
    let schema = Flows::new().schema();
    let mut columns: Vec<Expr> = schema.fields().iter().map(|field| ident(field.name())).collect();
    for (index, name) in PARTITIONS.into_iter().enumerate() {
        let kind = partition_type(name);
        columns.push(match &part.known[index] {
            _ if index >= part.below => ident(name),
            Some(value) => lit(ScalarValue::try_from_string(value.clone(), &kind)?).alias(name),
            None => lit(ScalarValue::try_from(&kind)?).alias(name),
        });
    }
    Ok(columns)
}
