//! Tables of Parquet files with the columns that `wirelane flows` writes.

use std::sync::Arc;

use arrow_schema::DataType;
use datafusion::common::ScalarValue;
use datafusion::datasource::TableProvider;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl,
};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, ident, lit};
use datafusion::prelude::{DataFrame, SessionContext};
use object_store::ObjectStore;
use wirelane::Result;

use super::kind::TableKind;
use super::listing::{self, ListingPart, PARTITIONS};
use super::{failure, panics};

/// The tables of the files below these URLs. A kind without files has no table.
pub(crate) async fn tables(
    context: &SessionContext,
    urls: &[ListingTableUrl],
) -> Result<Vec<(TableKind, Arc<dyn TableProvider>)>> {
    let mut all = [(TableKind::Flows, Vec::new()), (TableKind::Packets, Vec::new())];
    for url in urls {
        let store = context.runtime_env().object_store(url).map_err(failure::of)?;
        let parts = listing::parts(store.as_ref(), url).await?;
        let kind = kind_of(store.as_ref(), url).await?;
        all.iter_mut().filter(|it| it.0 == kind).for_each(|it| it.1.extend(parts.clone()));
    }
    let all = all.into_iter().filter(|(_, parts)| !parts.is_empty());
    let table = |(kind, parts)| Ok((kind, table(context, kind, parts).map_err(failure::of)?));
    all.map(table).collect()
}

/// The kind of the files below a URL. The first file decides.
async fn kind_of(store: &dyn ObjectStore, url: &ListingTableUrl) -> Result<TableKind> {
    let Some(file) = listing::first(store, url).await? else { return Ok(TableKind::Flows) };
    if let Some(kind) = file.location.filename().and_then(TableKind::of_name) {
        return Ok(kind);
    }
    let metadata = DFParquetMetadata::new(store, &file);
    // The check before reading reports any damage.
    let schema = panics::caught(metadata.fetch_schema()).await;
    Ok(schema
        .ok()
        .and_then(Result::ok)
        .map_or(TableKind::Flows, |schema| TableKind::of_columns(&schema)))
}

/// The type of a column from directories. An hour is text, because the engine looks for directories
/// by its text.
pub(crate) fn partition_type(name: &str) -> DataType {
    if name == PARTITIONS[0] { DataType::Date32 } else { DataType::Utf8 }
}

/// A listing table, if the directories below give all [`PARTITIONS`]. Otherwise the union of one
/// table per group, with constants for the other columns.
fn table(
    context: &SessionContext,
    kind: TableKind,
    parts: Vec<ListingPart>,
) -> Result<Arc<dyn TableProvider>, DataFusionError> {
    let groups = groups(parts);
    if let [group] = &groups[..]
        && group[0].below == 0
    {
        return listing_table(kind, group);
    }
    let mut all: Option<DataFrame> = None;
    for group in &groups {
        let frame = context.read_table(listing_table(kind, group)?)?;
        let frame = frame.select(columns(kind, &group[0])?)?;
        all = Some(match all {
            Some(all) => all.union(frame)?,
            None => frame,
        });
    }
    let all = all.ok_or_else(|| DataFusionError::Plan("there are no files".into()))?;
    Ok(all.into_view())
}

/// Groups parts for listing tables: the parts of a group are in one store, and share the columns
/// from directories.
fn groups(parts: Vec<ListingPart>) -> Vec<Vec<ListingPart>> {
    let key =
        |part: &ListingPart| (part.url.object_store(), part.known.clone(), part.below, part.suffix);
    let mut groups: Vec<Vec<ListingPart>> = Vec::new();
    for part in parts {
        match groups.iter_mut().find(|group| key(&group[0]) == key(&part)) {
            Some(group) => group.push(part),
            None => groups.push(vec![part]),
        }
    }
    groups
}

fn listing_table(
    kind: TableKind,
    group: &[ListingPart],
) -> Result<Arc<dyn TableProvider>, DataFusionError> {
    let columns = PARTITIONS[group[0].below..].iter();
    let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
        .with_file_extension(group[0].suffix)
        .with_table_partition_cols(
            columns.map(|name| ((*name).to_owned(), partition_type(name))).collect(),
        );
    let urls = group.iter().map(|part| part.url.clone()).collect();
    let config = ListingTableConfig::new_with_multi_paths(urls)
        .with_listing_options(options)
        .with_schema(kind.schema());
    Ok(Arc::new(ListingTable::try_new(config)?))
}

/// The columns of the rows, then the columns from directories: per row, constant, or null.
fn columns(kind: TableKind, part: &ListingPart) -> Result<Vec<Expr>, DataFusionError> {
    let schema = kind.schema();
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
