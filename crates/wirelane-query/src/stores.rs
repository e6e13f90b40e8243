//! Object stores: opened by URL, with keys, region and endpoint from the environment. Their errors
//! become one line of text.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use datafusion::error::DataFusionError;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig};
use url::Url;
use wirelane::{Error, Result};

/// A store, and the prefix in it.
pub(crate) struct OpenedStore {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: Path,
}

/// Time limits and retries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    /// The limit of one request with its body. No retry begins later than this.
    pub(crate) request: Duration,
    /// Retries when the store does not answer or is busy.
    pub(crate) retries: usize,
}

/// For reads of parts of files. Pauses between retries add up to 6.3 s at most: a user waits for
/// rows.
pub(crate) const READING: RetryPolicy =
    RetryPolicy { request: Duration::from_secs(30), retries: 6 };

/// Opens a store without a request.
pub(crate) fn open(text: &str, patience: RetryPolicy) -> Result<OpenedStore> {
    let failed = |cause: String| {
        Error::usage(format!("store {text}"), cause)
            .help("write s3://BUCKET/PREFIX, gs://… or az://…")
    };
    let url = Url::parse(text).map_err(|error| failed(error.to_string()))?;
    let (scheme, prefix) =
        ObjectStoreScheme::parse(&url).map_err(|error| failed(error.to_string()))?;
    let retries = RetryConfig {
        max_retries: patience.retries,
        retry_timeout: patience.request,
        ..RetryConfig::default()
    };
    let options = ClientOptions::new().with_timeout(patience.request);
    // Only variables with a prefix of the cloud: BUCKET or TOKEN may belong to another program.
    macro_rules! build {
        ($builder:ty, $prefixes:expr) => {
            variables(&$prefixes)
                .filter_map(|(name, value)| Some((name.parse().ok()?, value)))
                .fold(<$builder>::new().with_client_options(options), |builder, (name, value)| {
                    builder.with_config(name, value)
                })
                .with_url(text)
                .with_retry(retries)
                .build()
                .map(|store| Arc::new(store) as Arc<dyn ObjectStore>)
        };
    }
    let store = match scheme {
        ObjectStoreScheme::AmazonS3 => build!(AmazonS3Builder, ["aws_"]),
        ObjectStoreScheme::GoogleCloudStorage => build!(GoogleCloudStorageBuilder, ["google_"]),
        ObjectStoreScheme::MicrosoftAzure => {
            build!(MicrosoftAzureBuilder, ["azure_", "msi_", "identity_"])
        }
        _ => return Err(failed(format!("{}:// is no object store", url.scheme()))),
    };
    let store = store.map_err(|error| failed(explain(&error)))?;
    Ok(OpenedStore { store, prefix })
}

/// Variables whose names have one of these prefixes; the names in lower case.
fn variables(prefixes: &[&str]) -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(move |(name, value)| {
        let name = name.into_string().ok()?.to_ascii_lowercase();
        let ours = prefixes.iter().any(|prefix| name.starts_with(prefix));
        ours.then_some(())?;
        Some((name, value.into_string().ok()?))
    })
}

/// Whether the store refused the request: a retry would fail too.
pub(crate) fn is_refusal(error: &object_store::Error) -> bool {
    use object_store::Error as It;
    matches!(
        error,
        It::PermissionDenied { .. }
            | It::Unauthenticated { .. }
            | It::NotFound { .. }
            | It::InvalidPath { .. }
            | It::NotSupported { .. }
    )
}

/// The cause of a failure, on one line.
pub(crate) fn explain(error: &object_store::Error) -> String {
    use object_store::Error as It;
    let text = brief(&error.to_string());
    match (error, said(&text)) {
        (_, Some(said))
            if said.starts_with("NoSuchBucket") || said.starts_with("ContainerNotFound") =>
        {
            format!("there is no such bucket ({said}); make it, or name another")
        }
        (It::PermissionDenied { .. } | It::Unauthenticated { .. }, Some(said)) => {
            format!("it refuses ({said}); check the keys in the environment and their rights")
        }
        (It::PermissionDenied { source, .. } | It::Unauthenticated { source, .. }, None) => {
            let source = brief(&source.to_string());
            format!("access is denied ({source}); check the rights, and of a store the keys")
        }
        (It::NotFound { .. }, _) => "there is no such file".to_owned(),
        (_, Some(said)) => format!("it answered {said}"),
        (It::Generic { source, .. }, None) => brief(&source.to_string()),
        _ => text,
    }
}

/// The code and the message in an answer of S3 or Azure.
fn said(text: &str) -> Option<String> {
    let inside = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    };
    let code = inside("Code")?;
    Some(inside("Message").map_or_else(|| code.to_owned(), |message| format!("{code}: {message}")))
}

fn brief(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Stores of a session: opened when a table first names them.
#[derive(Debug, Default)]
pub(crate) struct StoreRegistry(DefaultObjectStoreRegistry);

impl ObjectStoreRegistry for StoreRegistry {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        self.0.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>, DataFusionError> {
        self.0.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>, DataFusionError> {
        if let Ok(store) = self.0.get_store(url) {
            return Ok(store);
        }
        let opened = open(url.as_str(), READING)
            .map_err(|error| DataFusionError::Configuration(error.to_string()))?;
        self.0.register_store(url, Arc::clone(&opened.store));
        Ok(opened.store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> object_store::Error {
        let source = format!("Server returned non-2xx status code: 403 Forbidden: {body}").into();
        object_store::Error::PermissionDenied { path: "flows".into(), source }
    }

    #[test]
    fn answers_are_told_in_words() {
        let body = "<?xml version=\"1.0\"?>\n<Error>\n<Code>AccessDenied</Code><Message>No\nrights</Message></Error>";
        assert_eq!(
            explain(&refusal(body)),
            "it refuses (AccessDenied: No rights); check the keys in the environment and their \
             rights"
        );
        assert!(is_refusal(&refusal("")));
        let body = "<Error><Code>NoSuchBucket</Code></Error>";
        assert!(explain(&refusal(body)).starts_with("there is no such bucket (NoSuchBucket)"));
    }

    #[test]
    fn what_is_no_store_is_named() {
        let error = open("ftp://host/flows", READING).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("ftp://host/flows") && error.contains("s3://BUCKET"), "{error}");
    }
}
