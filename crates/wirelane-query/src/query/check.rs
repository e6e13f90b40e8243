//! Files that a query is about to read are what they have to be: errors of the engine would not
//! name them.

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
use wirelane_arrow::Flows;

use super::failure;

/// Footers that are fetched at once.
const CONCURRENCY: usize = 32;

/// Reads the footers of all files of flows that the plan would read. The engine finds them in its
/// cache then.
///
/// # Errors
/// A file is not whole, or its columns are not those of flows.
pub(crate) async fn check(plan: &Arc<dyn ExecutionPlan>, runtime: &Arc<RuntimeEnv>) -> Result<()> {
    let mut files = Vec::new();
    gather(plan, &mut files);
    let mut seen = HashSet::new();
    files.retain(|(store, file)| seen.insert((store.clone(), file.location.clone())));
    let expected = Flows::new().schema();
    let checks = files.into_iter().map(|(store, file)| {
        let (runtime, expected) = (Arc::clone(runtime), Arc::clone(&expected));
        async move { check_file(&runtime, &store, &file, &expected).await }
    });
    stream::iter(checks).buffer_unordered(CONCURRENCY).try_collect::<()>().await
}

fn gather(plan: &Arc<dyn ExecutionPlan>, files: &mut Vec<(ObjectStoreUrl, ObjectMeta)>) {
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>()
        && let Some((config, _)) = scan.downcast_to_file_source::<ParquetSource>()
    {
        files.extend(files_of(config));
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
    expected: &Schema,
) -> Result<()> {
    let object = || match store.as_str() {
        "file:///" => format!("/{}", file.location),
        store => format!("{store}{}", file.location),
    };
    let store = runtime.object_store(store).map_err(failure::of)?;
    let cache = runtime.cache_manager.get_file_metadata_cache();
    let footer = DFParquetMetadata::new(store.as_ref(), file).with_file_metadata_cache(Some(cache));
    let schema = footer.fetch_schema().await.map_err(|error| match error {
        DataFusionError::ParquetError(error) => {
            Error::failed(object(), format!("it is not a whole file of Parquet: {error}"))
                .help("remove it, or name other files")
        }
        other => failure::of(other),
    })?;
    match unlike(&schema, expected) {
        None => Ok(()),
        Some(cause) => Err(Error::failed(object(), cause)
            .help("`wirelane flows -w DIR/` writes what is read here; name other files")),
    }
}

/// How the columns of a file differ from those of flows, if a query would stumble over it.
fn unlike(schema: &Schema, expected: &Schema) -> Option<String> {
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
    (common == 0).then(|| "none of its columns is one of flows".to_owned())
}

/// All kinds of text are one.
fn is_like(found: &DataType, expected: &DataType) -> bool {
    match (found, expected) {
        (DataType::Dictionary(_, found), _) => is_like(found, expected),
        (DataType::Utf8View | DataType::LargeUtf8, DataType::Utf8) => true,
        (found, expected) => found == expected,
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn columns_may_be_missing_or_new_but_not_others() {
        let expected = Flows::new().schema();
        let schema = |name: &str, kind| Schema::new(vec![Field::new(name, kind, true)]);
        assert_eq!(unlike(&expected, &expected), None);
        assert_eq!(unlike(&schema("packets", DataType::UInt64), &expected), None);
        assert_eq!(unlike(&schema("source", DataType::Utf8View), &expected), None);
        let cause = unlike(&schema("packets", DataType::Utf8), &expected).unwrap();
        assert_eq!(cause, "column packets is Utf8, not UInt64");
        let cause = unlike(&schema("price", DataType::Utf8), &expected).unwrap();
        assert_eq!(cause, "none of its columns is one of flows");
    }
}
