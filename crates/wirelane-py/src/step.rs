//! The answer of an operation that waits for a limited time.

use wirelane::Result;

/// No answer yet, or an item, or the end, or an error.
pub(crate) type Step<T> = Option<Result<Option<T>>>;
