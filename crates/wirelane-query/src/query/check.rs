//! Checks the files that a query is about to read, because the engine's errors do not name files.
//!
//! The check reads the footers of the files that are left in the plan; the engine then takes them
//! from its cache.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use object_store::ObjectMeta;
use wirelane::{Error, Result};

use super::kind::TableKind;
use super::{failure, panics};

/// Footers that are fetched concurrently.
const CONCURRENCY: usize = 32;

/// Reads the footers of all Parquet files in the plan. The engine then finds them in its cache.
///
/// # Errors
/// A file is damaged, or its columns do not fit its table.
pub(crate) async fn check(plan: &Arc<dyn ExecutionPlan>, runtime: &Arc<RuntimeEnv>) -> Result<()> {
    let mut files = Vec::new();
    gather(plan, &mut files);
    let mut seen = HashSet::new();
    files.retain(|(_, store, file)| seen.insert((store.clone(), file.location.clone())));
    let schemas = [TableKind::Flows, TableKind::Packets].map(|kind| (kind, kind.schema()));
    let checks = files.into_iter().map(|(kind, store, file)| {
        let (runtime, schemas) = (Arc::clone(runtime), &schemas);
        async move {
            let expected = schemas.iter().find(|it| it.0 == kind);
            let expected = expected.map_or_else(|| kind.schema(), |it| Arc::clone(&it.1));
            check_file(&runtime, &store, &file, kind, &expected).await
        }
    });
    stream::iter(checks).buffer_unordered(CONCURRENCY).try_collect::<()>().await
}

/// A file of a table, and its store.
type Found = (TableKind, ObjectStoreUrl, ObjectMeta);

fn gather(plan: &Arc<dyn ExecutionPlan>, files: &mut Vec<Found>) {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>()
        && let Some((config, _)) = scan.downcast_to_file_source::<ParquetSource>()
    {
        let kind = TableKind::of_columns(config.file_schema());
        files.extend(files_of(config).map(|(store, file)| (kind, store, file)));
    }
    plan.children().into_iter().for_each(|child| gather(child, files));
}

fn files_of(config: &FileScanConfig) -> impl Iterator<Item = (ObjectStoreUrl, ObjectMeta)> {
    let files = config.file_groups.iter().flat_map(|group| group.files());
    files.map(|file| (config.object_store_url.clone(), file.object_meta.clone()))
}

async fn check_file(
    runtime: &Arc<RuntimeEnv>,
    store: &ObjectStoreUrl,
    file: &ObjectMeta,
    kind: TableKind,
    expected: &Schema,
) -> Result<()> {
    let object = || name(store, file);
    let store = runtime.object_store(store).map_err(failure::of)?;
    let cache = runtime.cache_manager.get_file_metadata_cache();
    let footer = DFParquetMetadata::new(store.as_ref(), file).with_file_metadata_cache(Some(cache));
    let fetched = panics::caught(footer.fetch_schema()).await;
    let fetched = fetched.map_err(|_| damaged(object(), "its metadata is impossible"))?;
    let schema = fetched.map_err(|error| match error {
        DataFusionError::ParquetError(error) => damaged(object(), &error.to_string()),
        other => failure::of(other),
    })?;
    let found = TableKind::of_columns(&schema);
    let unlike = match unlike(&schema, expected, kind) {
        Some(_) if found != kind => {
            Some(format!("its rows are {}, not {}", found.name(), kind.name()))
        }
        unlike => unlike,
    };
    match unlike {
        None => Ok(()),
        Some(cause) => Err(Error::failed(object(), cause)
            .help("`wirelane flows -w DIR/` writes what is read here; name other files")),
    }
}

/// The name of a file, for users.
pub(crate) fn name(store: &ObjectStoreUrl, file: &ObjectMeta) -> String {
    match store.as_str() {
        "file:///" => format!("/{}", file.location),
        store => format!("{store}{}", file.location),
    }
}

/// The error of a file that cannot be read.
pub(crate) fn damaged(object: String, cause: &str) -> Error {
    Error::failed(object, format!("it is not a whole file of Parquet: {cause}"))
        .help("remove it, or name other files")
}

/// The first difference between the columns of a file and of its table that makes queries fail.
fn unlike(schema: &Schema, expected: &Schema, kind: TableKind) -> Option<String> {
    let mut common = 0;
    for field in expected.fields() {
        let Ok(found) = schema.field_with_name(field.name()) else { continue };
        common += 1;
        if !is_like(found.data_type(), field.data_type()) {
            return Some(format!(
                "column {} is {}, not {}",
                field.name(),
                found.data_type(),
                field.data_type()
            ));
        }
    }
    (common == 0).then(|| format!("none of its columns is one of {}", kind.name()))
}

/// All types of text are alike, and all types of bytes.
fn is_like(found: &DataType, expected: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match (found, expected) {
        (Dictionary(_, found), _) => is_like(found, expected),
        (Utf8 | Utf8View | LargeUtf8, Utf8 | Utf8View) => true,
        (Binary | BinaryView | LargeBinary, BinaryView) => true,
        (found, expected) => found == expected,
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn columns_may_be_missing_or_new_but_not_others() {
        let expected = TableKind::Flows.schema();
        let unlike = |schema: &Schema| unlike(schema, &expected, TableKind::Flows);
        let schema = |name: &str, kind| Schema::new(vec![Field::new(name, kind, true)]);
        assert_eq!(unlike(&expected), None);
        assert_eq!(unlike(&schema("packets", DataType::UInt64)), None);
        assert_eq!(unlike(&schema("source", DataType::Utf8View)), None);
        let cause = unlike(&schema("packets", DataType::Utf8)).unwrap();
        assert_eq!(cause, "column packets is Utf8, not UInt64");
        let cause = unlike(&schema("price", DataType::Utf8)).unwrap();
        assert_eq!(cause, "none of its columns is one of flows");
    }
}
