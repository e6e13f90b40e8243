//! Converts errors of queries to errors of the command.

use datafusion::error::DataFusionError;
use object_store::Error as StoreError;
use wirelane::Error;

use crate::stores;

/// Converts an error of the engine. An [`Error`] that a source reported inside it stays unchanged.
pub(crate) fn of(error: DataFusionError) -> Error {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => of(*inner),
        DataFusionError::Shared(shared) => match std::sync::Arc::try_unwrap(shared) {
            Ok(inner) => of(inner),
            Err(shared) => of_shared(shared.find_root()),
        },
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => of(first),
            None => failed("it failed"),
        },
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(error) => *error,
            Err(inner) => match inner.downcast::<DataFusionError>() {
                Ok(inner) => of(*inner),
                Err(inner) => failed(&inner.to_string()),
            },
        },
        DataFusionError::SQL(error, _) => sql(&error.to_string().replace("sql parser error: ", "")),
        DataFusionError::Plan(text) | DataFusionError::NotImplemented(text) => sql(&text),
        DataFusionError::SchemaError(error, _) => sql(&error.to_string()),
        DataFusionError::ObjectStore(error) => store(*error),
        DataFusionError::IoError(error) => Error::io("the query", "read", error),
        DataFusionError::ResourcesExhausted(text) => exhausted(&text),
        DataFusionError::Execution(text) if text.ends_with("failed: Cancelled") => {
            Error::failed("the query", "an executor was lost while it ran").help("ask again")
        }
        other => failed(&other.strip_backtrace()),
    }
}

/// Converts an error from before any reading. The question is wrong, unless the system or a source
/// failed.
pub(crate) fn of_question(error: DataFusionError) -> Error {
    match error.find_root() {
        DataFusionError::Execution(_) | DataFusionError::ArrowError(..) => {
            sql(&error.find_root().strip_backtrace())
        }
        _ => of(error),
    }
}

/// Converts an error that has other owners.
fn of_shared(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::ResourcesExhausted(text) => exhausted(text),
        DataFusionError::External(inner) if inner.is::<Error>() => {
            let text = inner.to_string();
            let (object, cause) = text.split_once(": ").unwrap_or(("the query", &text));
            Error::failed(object, cause.to_owned())
        }
        other => failed(&other.strip_backtrace()),
    }
}

fn exhausted(text: &str) -> Error {
    Error::failed("memory", line(text)).help("allow more by --memory, or ask for less at once")
}

/// An error of an object store, or of the file system behind one.
pub(crate) fn store(error: StoreError) -> Error {
    let cause = stores::explain(&error);
    match error {
        StoreError::NotFound { path, .. }
        | StoreError::PermissionDenied { path, .. }
        | StoreError::Unauthenticated { path, .. }
            if !path.is_empty() =>
        {
            Error::failed(path, cause)
        }
        StoreError::Generic { store, .. } => Error::failed(store.to_string(), cause),
        _ => Error::failed("store", cause),
    }
}

/// The error of a wrong question.
fn sql(text: &str) -> Error {
    let error = Error::usage("SQL", line(text));
    let text = text.to_ascii_lowercase();
    if ["ddl not supported", "dml not supported", "statement not supported"]
        .iter()
        .any(|words| text.contains(words))
    {
        return Error::usage("SQL", "a query only reads, and this statement changes something")
            .help("ask by SELECT; -w FILE writes the answer");
    }
    if let Some((_, rest)) = text.split_once("table 'datafusion.public.")
        && let Some((table, _)) = rest.split_once("' not found")
    {
        let error = Error::usage("SQL", format!("there is no table {table}"));
        return error.help(match table {
            "flows" => "name a directory, a file or a URL with Parquet files of flows",
            "packets" => "name a capture file, or a directory of wirelane record",
            _ => "there are flows and packets, as the sources have them",
        });
    }
    if text.contains("no field named") {
        return error
            .help("`SELECT column_name FROM information_schema.columns` lists the columns");
    }
    error
}

fn failed(text: &str) -> Error {
    Error::failed("the query", line(text))
}

/// Errors have one line.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use datafusion::common::plan_datafusion_err;

    use super::*;

    #[test]
    fn an_error_of_ours_comes_out_of_the_engine_as_it_was() {
        let ours = Error::usage("a.parquet", "it is short").help("wait");
        let inner = DataFusionError::External(Box::new(ours));
        let error = of(inner.context("while reading"));
        assert_eq!(error.to_string(), "a.parquet: it is short; wait");
        assert_eq!(error.kind(), wirelane::ErrorKind::Usage);
    }

    #[test]
    fn a_table_without_source_says_what_to_name() {
        let error = of(plan_datafusion_err!("table 'datafusion.public.flows' not found"));
        assert!(error.to_string().contains("name a directory"), "{error}");
    }
}
