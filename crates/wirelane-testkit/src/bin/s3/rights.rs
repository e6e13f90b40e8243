//! Who may do what: a bucket must be there, and some are only read.

use std::path::PathBuf;

use s3s::access::{S3Access, S3AccessContext};
use s3s::{S3Result, s3_error};

/// The rights of everybody with a key.
pub(crate) struct Rights {
    pub(crate) root: PathBuf,
    pub(crate) read_only: Vec<String>,
}

#[async_trait::async_trait]
impl S3Access for Rights {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        if context.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "Requests must be signed"));
        }
        let Some(bucket) = context.s3_path().get_bucket_name() else { return Ok(()) };
        // As S3 does; s3s-fs would make a directory of it.
        if !self.root.join(bucket).is_dir() {
            return Err(s3_error!(NoSuchBucket, "The specified bucket does not exist"));
        }
        // Without it, s3s-fs 0.14 answers 500: its directories are no objects.
        let key = context.s3_path().get_object_key();
        if key.is_some_and(|key| self.root.join(bucket).join(key).is_dir()) {
            return Err(s3_error!(NoSuchKey, "The specified key does not exist"));
        }
        let name = context.s3_op().name();
        let reads = ["Get", "Head", "List"].iter().any(|prefix| name.starts_with(prefix));
        if !reads && self.read_only.iter().any(|it| it == bucket) {
            return Err(s3_error!(AccessDenied, "Access Denied"));
        }
        Ok(())
    }
}
